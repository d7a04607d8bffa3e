"""Code comes from the kernel folders alone: by no absolute path, no way up, no link and no include out of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofexp.config.paths import find_kernel_file, is_inner
from roofexp.devices.cpu.device import CpuDevice
from roofexp.devices.cuda.code import included_files
from roofexp.errors import BadInputError


@pytest.fixture
def roots(tmp_path: Path) -> list[Path]:
    (tmp_path / "outside.py").write_text("def ok(x, y):\n    raise SystemExit\n")
    (tmp_path / "outside.cuh").write_text("#define OUTSIDE 1\n")
    root = tmp_path / "kernels"
    (root / "own").mkdir(parents=True)
    (root / "own/link.py").symlink_to(tmp_path / "outside.py")
    (root / "own/link.cuh").symlink_to(tmp_path / "outside.cuh")
    (root / "own/inner.cuh").write_text("#define INNER 1\n")
    (root / "common.cuh").write_text("#define COMMON 1\n")
    (root / "own/good.py").write_text("from pathlib import Path\ndef ok(x, y):\n    y[:] = x\n")
    return [root]


@pytest.mark.parametrize(
    "name", ["ABOVE/outside.py", "../outside.py", "own/../../outside.py", "own/link.py", "a\0b.py"]
)
def test_a_code_file_outside_is_refused(name: str, roots: list[Path]) -> None:
    with pytest.raises(BadInputError, match=r"here: .* (leads out of the kernel folders|is a link out of) ?"):
        find_kernel_file(name.replace("ABOVE", str(roots[0].parent)), roots, "here")
    assert find_kernel_file("own/good.py", roots, "here") == roots[0] / "own/good.py"


def test_a_function_is_the_files_own(roots: list[Path]) -> None:
    device = CpuDevice(1, roots)
    assert callable(device.load_function("own/good.py:ok", "here"))
    with pytest.raises(BadInputError, match=r"own/good\.py has no function 'Path'"):
        device.load_function("own/good.py:Path", "here")


@pytest.mark.parametrize(
    "line",
    [
        '#include "../../outside.cuh"',
        '#include "ABOVE/outside.cuh"',
        "#include <ABOVE/outside.cuh>",
        "# /* why */ include <../../outside.cuh>",
        '%:include "../../outside.cuh"',
        '#inc\\\nlude "../../outside.cuh"',
        '#define FILE "/etc/hostname"\n#include FILE',
        '#include "link.cuh"',
        '#include_next "../../outside.cuh"',
        'const char *text = "/*"; // "\n#include "../../nowhere.cuh"\nconst char *end = "*/";',
    ],
)
def test_an_include_that_leads_out_is_refused(line: str, roots: list[Path]) -> None:
    source = roots[0] / "own/kernel.cu"
    source.write_text(line.replace("ABOVE", str(roots[0].parent)) + "\n")
    with pytest.raises(BadInputError, match=r"kernel\.cu: #include .* leads out of the kernel folders"):
        included_files(source, [source.parent, *roots])


def test_an_include_of_an_included_header_is_checked_too(roots: list[Path]) -> None:
    source = roots[0] / "own/kernel.cu"
    source.write_text("#include <deeper.cuh>\n")
    (roots[0] / "deeper.cuh").write_text('#include "../outside.cuh"\n')
    with pytest.raises(BadInputError, match=r"deeper\.cuh: #include"):
        included_files(source, [source.parent, *roots])


def test_headers_in_the_folders_are_read(roots: list[Path]) -> None:
    source = roots[0] / "own/kernel.cu"
    source.write_text('#include "../common.cuh"\n#include "inner.cuh" // own\n#include <cuda_fp16.h>\n')
    assert [file.name for file in included_files(source, [source.parent, *roots])] == [
        *("kernel.cu", "common.cuh", "inner.cuh")
    ]


INNER = ("a", "a/b c", "ä")
NOT_INNER = ("", ".", "/a", "a/../b", "a\x1b[2J", "a\u202eb")


@pytest.mark.parametrize(("name", "inner"), [*((name, True) for name in INNER), *((name, False) for name in NOT_INNER)])
def test_what_stays_below_a_folder(name: str, inner: bool) -> None:
    assert is_inner(name) == inner
