"""The types of the whole configuration: YAML holds the values, this module says what they may be.

Hydra composes every point of a sweep against these types before it launches the first one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from omegaconf import MISSING

from roofexp.config.settings import PlacingSettings, TimingSettings, config_type

if TYPE_CHECKING:
    from roofexp.config.settings import PlacingSettings as PlacingConfig
    from roofexp.config.settings import TimingSettings as TimingConfig
else:
    TimingConfig = config_type(TimingSettings, "TimingConfig", __name__)
    PlacingConfig = config_type(PlacingSettings, "PlacingConfig", __name__)

from roofexp.config.cases import register_cases, register_options
from roofexp.config.paths import conf_folder

# Python's own enum members are spelt as users write them, so that Hydra's error lists what may be typed.


class PrecisionName(Enum):
    fp64 = "fp64"
    fp32 = "fp32"
    tf32 = "tf32"
    fp16 = "fp16"
    bf16 = "bf16"
    fp8 = "fp8"
    int8 = "int8"
    int32 = "int32"


class Fill(Enum):
    normal = "normal"
    uniform = "uniform"
    zeros = "zeros"


class ClockMode(Enum):
    observe = "observe"
    duty = "duty"
    base = "base"
    boost = "boost"
    locked = "locked"


class CacheState(Enum):
    cold = "cold"
    hot = "hot"


class CounterLevel(Enum):
    none = "none"
    auto = "auto"
    basic = "basic"
    hierarchy = "hierarchy"
    diagnosis = "diagnosis"


class CounterPhase(Enum):
    sweep = "sweep"
    job = "job"


class CacheControl(Enum):
    auto = "auto"
    all = "all"
    none = "none"


class ReplayMode(Enum):
    kernel = "kernel"
    application = "application"


class RoofsPolicy(Enum):
    measure = "measure"
    cached = "cached"
    off = "off"


class TrackingStore(Enum):
    sqlite = "sqlite"
    server = "server"
    off = "off"


class FigureStyle(Enum):
    screen = "screen"
    paper = "paper"


@dataclass
class OperandConfig:
    shape: list[Any] = MISSING  # names of dimensions, numbers or formulas
    role: str = MISSING  # in, out or inout
    precision: PrecisionName | None = None  # the point's precision unless said otherwise
    fill: Fill | None = None  # the point's fill unless said otherwise


@dataclass
class WorkConfig:
    flops: int | str = MISSING
    bytes: int | str = MISSING  # compulsory DRAM traffic


@dataclass
class CpuConfig:
    function: str | None = None  # "stream/saxpy.py:saxpy", called with the arguments
    factory: str | None = None  # "roofs/fma.py:build": called once with dtype and parameters, gives the function
    args: list[str] | None = None  # operands, then scalars, unless said otherwise
    precisions: list[PrecisionName] | None = None  # where the code does fewer than the kernel


@dataclass
class CudaConfig:
    source: str = MISSING
    entry: str = MISSING
    block: Any = 256
    grid: Any = MISSING
    shared_bytes: Any = 0  # dynamic shared memory: bytes or a formula
    arch: str | None = None  # e.g. sm_90a where the code needs it
    min_arch: Any = None  # e.g. 80: older GPUs cannot run it; or per precision, {bf16: 80, fp8: 89}
    args: list[str] | None = None  # operands, scalars, then dimensions, unless said otherwise
    precisions: list[PrecisionName] | None = None
    max_l1: bool = False  # prefer L1 over shared memory
    half_lanes: int = 2  # values that a 16-bit instruction works on: 2 in code on half2, 1 in scalar code


@dataclass
class CallConfig:
    call: str = MISSING
    precisions: list[PrecisionName] | None = None


@dataclass
class KernelConfig:
    name: str = MISSING
    about: str = ""
    size: int = MISSING
    shape: dict[str, Any] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)  # compile-time parameters: tile, unroll, chains ...
    scalars: dict[str, float] = field(default_factory=dict)
    operands: dict[str, OperandConfig] = field(default_factory=dict)
    work: WorkConfig = field(default_factory=WorkConfig)
    reference: Any = None  # a NumPy formula, or one per output
    error_scale: str | None = None  # what the error is measured against; the largest reference value unless said
    tolerance: dict[str, float] = field(default_factory=dict)  # per precision; the precision's own unless said
    precisions: list[PrecisionName] = field(default_factory=list)
    cpu: CpuConfig | None = None
    numpy: CallConfig | None = None
    cuda: CudaConfig | None = None
    cupy: CallConfig | None = None
    torch: CallConfig | None = None
    expect: str | None = None  # the verdict that a planted fault, or its healthy twin, must get


@dataclass
class PrecisionConfig:
    name: PrecisionName = MISSING
    about: str = ""
    itemsize: int = MISSING  # bytes of one stored element
    storage: str = MISSING  # NumPy's name of the stored type
    tolerance: float = MISSING  # error allowed against float64, relative to the scale of the result


@dataclass
class ClockConfig:
    mode: ClockMode = MISSING
    sample_s: float = 0.02  # between two readings of clocks, power and temperature beside the timing
    duty: float | None = None  # share of the time that the device works; the rest it pauses
    period_s: float = 0.2  # one batch and its pause, in mode duty
    mhz: int | None = None  # asked for in mode locked
    shared: bool = False  # true: take a device-wide lock though other programs use the GPU


@dataclass
class CacheConfig:
    state: CacheState = MISSING


@dataclass
class CountersConfig:
    level: CounterLevel = MISSING
    phase: CounterPhase = CounterPhase.sweep
    ncu: str | None = None  # path of Nsight Compute; null: the one on the PATH, else the newest installed
    metrics: list[str] | None = None  # ncu's own names instead of those of the level
    cache_control: CacheControl = CacheControl.auto  # auto: all before cold points, none before hot ones
    replay_mode: ReplayMode = ReplayMode.kernel
    timeout_s: float = 120.0  # for one point; it is given up then, the others go on
    keep_reports: bool = False


@dataclass
class RoofsConfig:
    policy: RoofsPolicy = MISSING
    budget_s: float = MISSING  # for the samples of one roof kernel
    fill: Fill = Fill.normal  # operands of the roof kernels; zeros draw less power
    cpu: dict[str, Any] = field(default_factory=dict)
    cuda: dict[str, Any] = field(default_factory=dict)


@dataclass
class TrackingConfig:
    store: TrackingStore = MISSING
    uri: str | None = None
    experiment: str = "roofexp"


@dataclass
class FiguresConfig:
    style: FigureStyle = MISSING
    width_mm: float = MISSING
    font_pt: float = MISSING
    labels: int = MISSING  # points labelled in the figure; the rest are named in hover text
    draw: bool = True  # at the end of the sweep


@dataclass
class Config:
    name: str = MISSING  # the folder under outputs
    kernel: KernelConfig = field(default_factory=KernelConfig)
    size: int = MISSING
    precision: PrecisionConfig = field(default_factory=PrecisionConfig)
    device: str = "auto"
    fill: Fill = Fill.normal
    seed: int | None = None
    clock: ClockConfig = field(default_factory=ClockConfig)
    cache: CacheConfig = field(default_factory=CacheConfig)
    timing: TimingConfig = field(default_factory=TimingConfig)  # type: ignore[arg-type]
    counters: CountersConfig = field(default_factory=CountersConfig)
    roofs: RoofsConfig = field(default_factory=RoofsConfig)
    placing: PlacingConfig = field(default_factory=PlacingConfig)  # type: ignore[arg-type]
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    figures: FiguresConfig = field(default_factory=FiguresConfig)
    machine: Any = None  # another machine under whose roofs the points are drawn too: a file of conf/machine
    outputs: str = "outputs"
    gate: str | None = None  # a file of rules that the sweep must keep; exit code 1 where it does not
    fail_fast: bool = False


def register() -> None:
    """Makes known to Hydra: the types, under the name that the defaults list uses, and what one table or one pattern
    stands for."""
    register_cases(conf_folder() / "cases.yaml")
    register_options()
    from hydra.core.config_store import ConfigStore

    ConfigStore.instance().store(name="schema", node=Config)
