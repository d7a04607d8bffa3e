"""What the hooks into Hydra keep and let go."""

from __future__ import annotations

from hydra.core.utils import JobReturn, JobStatus
from omegaconf import OmegaConf

from roofexp.run.callbacks import SweepCallback


def test_the_configuration_of_a_job_is_let_go_when_the_next_one_starts() -> None:
    hooks, config = SweepCallback(), OmegaConf.create({"size": 1})
    done = JobReturn(overrides=["size=1"], cfg=config, hydra_cfg=config, status=JobStatus.COMPLETED)
    hooks.on_job_start(config)
    hooks.on_job_end(config, job_return=done)
    assert done.cfg == config  # for other callbacks at the end of this job
    hooks.on_job_start(config)
    assert (done.cfg, done.hydra_cfg) == (None, None)
    assert (done.overrides, done.return_value) == (["size=1"], None)  # what a sweeper asks for
