"""Every layout that ncu has printed since 2020 gives the same launches; what cannot be read says what was found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ncu_text import DATA, columns, one, text_of, wide

from roofexp.counters.counts import Counts, derive
from roofexp.errors import BadInputError
from roofexp.ncu.launch import Launch
from roofexp.ncu.report import read_report, read_report_file

BYTES, TIME = "dram__bytes.sum", "gpu__time_duration.sum"
FFMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"


def read(name: str) -> list[Launch]:
    return read_report_file(DATA / name)


def counts(launch: Launch) -> Counts:
    return derive(launch.values, launch.architecture, kernel=launch.function)


@pytest.mark.parametrize("name", ["ncu01a_long12_2020.csv", "ncu01b_long15_2023.csv", "ncu01c_raw_wide_2025.csv"])
def test_three_header_layouts_give_the_same_records(name: str) -> None:
    """NCU-01."""
    saxpy, scale = read(name)
    expected = [(saxpy, 805306368, 250e-6, 134217728, 1 / 6), (scale, 536870912, 170e-6, 67108864, 0.125)]
    for launch, moved, time_s, flops, intensity in expected:
        found = counts(launch)
        assert (found.dram_bytes, found.time_s, found.flops) == (moved, time_s, flops)
        assert flops / moved == pytest.approx(intensity, rel=1e-6)
    assert counts(saxpy).flops / 250e-6 == pytest.approx(536.871e9, rel=1e-6)  # type: ignore[operator]
    assert saxpy.kernel == "saxpy(int, float, const float *, float *)"
    assert [saxpy.launch, scale.launch] == [0, 1]


def test_long_page_with_20_columns_and_rows_of_rules() -> None:
    header = columns(
        "ID|Process ID|Process Name|Host Name|Kernel Name|Context|Stream|Block Size|Grid Size|Device|CC|Section Name",
        "Metric Name|Metric Unit|Metric Value|Rule Name|Rule Type|Rule Description|Estimated Speedup Type",
        "Estimated Speedup",
    )
    assert len(header) == 20
    who = ["0", "9", "app", "127.0.0.1", "k(int)", "1", "7", "(64, 1, 1)", "(2, 1, 1)", "0", "8.9", "Section"]
    rows = [
        header,
        [*who, "Duration", "us", "1,250.50", "", "", "", "", ""],
        [*who, "", "", "", "Bottleneck", "OPT", 'Says "much",\nand on two lines', "global", "12.5"],
        [*who, "Memory Throughput", "Gbyte/second", "200.00", "", "", "", "", ""],
        [*who, "Memory Throughput", "%", "71.20", "", "", "", "", ""],
    ]
    (launch,) = read_report(text_of(rows), "report")
    said = 'ncu\'s rule Bottleneck (OPT): Says "much", and on two lines (estimated speedup 12.5 %, global)'
    assert said in launch.notes
    found = counts(launch)
    assert found.time_s == pytest.approx(1250.5e-6)
    assert found.sol_memory_pct == 71.2
    assert found.dram_bytes == pytest.approx(200e9 * 1250.5e-6)
    assert launch.architecture == "8.9"


def test_per_kernel_summary_is_the_average_launch() -> None:
    header = columns(
        "Process ID|Process Name|Host Name|Kernel Name|Block Size|Grid Size|Device|CC|Invocations|Section Name",
        "Metric Name|Metric Unit|Minimum|Maximum|Average",
    )
    who = ["9", "app", "127.0.0.1", "k(int)", "(64, 1, 1)", "(2, 1, 1)", "0", "9.0", "14", "Command line metrics"]
    rows = [header, [*who, BYTES, "byte", "900", "1,100", "1,000"], [*who, TIME, "ns", "90", "110", "100.50"]]
    (launch,) = read_report(text_of(rows), "report")
    assert (launch.invocations, launch.launch, launch.process) == (14, None, 9)
    assert counts(launch).dram_bytes == 1000
    assert counts(launch).time_s == pytest.approx(100.5e-9)
    assert any("average" in note for note in launch.notes)


def test_scaled_units_of_the_wide_page() -> None:
    """NCU-02 a."""
    launch = read("ncu02a_raw_wide_autoscaled.csv")[0]
    found = counts(launch)
    assert found.dram_bytes == pytest.approx(8.0531e8, rel=5e-3)
    assert found.time_s == pytest.approx(2.5005e-4, rel=5e-3)
    assert found.l1_bytes == pytest.approx(1.61e9, rel=5e-3)
    assert found.sm_hz == pytest.approx(1.68e9, rel=5e-3)
    assert launch.values["launch__shared_mem_config_size"] == 32770  # K is 1000


def test_units_that_change_from_row_to_row() -> None:
    """NCU-02 b."""
    found = [counts(launch) for launch in read("ncu02b_long15_mixed_units.csv")]
    assert [c.dram_bytes for c in found] == pytest.approx([8.0531e8, 3.22e9, 12290, 768], rel=5e-3)
    assert [c.time_s for c in found] == pytest.approx([2.5005e-4, 1.02e-3, 2.85e-6, 9.92e-7], rel=5e-3)


def test_unknown_unit_of_a_metric_that_counts_is_an_error_naming_both() -> None:
    with pytest.raises(BadInputError, match=r"report: dram__bytes\.sum has the unit 'Foobyte'"):
        read_report(one({BYTES: ("805.31", "Foobyte")}), "report")
    (launch,) = read_report(one({BYTES: ("805", "byte"), "launch__new_thing": ("3", "furlong")}), "report")
    assert launch.metrics["launch__new_thing"].value == 3  # nothing is computed from it


def test_lines_of_the_tool_and_of_the_program_around_the_table() -> None:
    """NCU-04."""
    launches = read("ncu04_stdout_with_noise.txt")
    found = [counts(launch) for launch in launches]
    assert [c.flops for c in found] == [2147483648, 2147483648]
    assert [c.dram_bytes for c in found] == [12976128, 12976384]
    assert [c.time_s for c in found] == pytest.approx([1843200e-9, 1842176e-9])
    assert [c.flops / c.dram_bytes for c in found] == pytest.approx([165.494949, 165.491684], rel=1e-6)  # type: ignore
    for launch in launches:
        assert any("unmodified GPU clocks" in note for note in launch.notes)


def test_program_output_between_and_before_the_rows() -> None:
    lines = one({BYTES: ("1,024", "byte"), TIME: ("512", "ns")}).splitlines()
    text = "\n".join(
        ["step 1 done, " + lines[0], *lines[1:2], 'say "what, now', "1,2,3", "==PROF== x", *lines[2:], "bye"]
    )
    (launch,) = read_report(text, "report")
    assert counts(launch).dram_bytes == 1024


@pytest.mark.parametrize("name", ["ncu06a_thousands.csv", "ncu06b_plain.csv"])
def test_separators_and_time_from_cycles(name: str) -> None:
    """NCU-06."""
    (launch,) = read(name)
    found = counts(launch)
    assert found.dram_bytes == 512000000
    assert found.time_s == pytest.approx(1e-3, rel=1e-9)
    assert found.dram_bytes / found.time_s == pytest.approx(512.000e9)  # type: ignore[operator]
    assert any("cycles / clock" in note for note in found.notes)


def test_missing_values_stay_missing() -> None:
    """NCU-11."""
    launches = read("ncu11_missing_values.csv")
    first, whole, partial, nothing = (counts(launch) for launch in launches)
    assert (first.dram_bytes, first.flops, first.l2_bytes) == (None, 134217728, None)
    assert whole.flops / whole.dram_bytes == pytest.approx(0.166667, abs=1e-6)  # type: ignore[operator]
    assert (partial.flops, partial.flops_by_type, partial.dram_bytes) == (None, {"fp32": None}, 805306368)
    assert (nothing.flops, nothing.dram_bytes, nothing.time_s, nothing.l2_bytes) == (None, None, None, None)
    (flag,) = nothing.flags
    assert "MIG" in flag.message
    assert "mismatch" in flag.message
    assert any(BYTES in note for note in launches[0].notes)


def test_launches_of_several_processes_stay_apart() -> None:
    """NCU-13."""
    launches = read("ncu13_two_processes.csv")
    assert [(launch.process, launch.launch) for launch in launches] == [
        (p, i) for p in (85800, 85801) for i in range(3)
    ]
    for process, time_ns in ((85800, 3030), (85801, 9030)):
        own = [launch for launch in launches if launch.process == process]
        assert [counts(launch).flops for launch in own] == [1000000, 0, 1000000]
        assert sum(counts(launch).time_s or 0 for launch in own) == pytest.approx(time_ns * 1e-9)


def test_decimal_comma_with_semicolons_as_spreadsheets_export_it() -> None:
    values = {BYTES: ("805.306.368", "byte"), TIME: ("250,05", "us"), FFMA: ("67.108.864", "inst")}
    (launch,) = read_report(one(values, delimiter=";", architecture="9,0"), "report")
    assert launch.architecture == "9.0"
    assert counts(launch).dram_bytes == 805306368
    assert counts(launch).time_s == pytest.approx(250.05e-6)
    assert counts(launch).flops == 134217728


def test_a_number_that_can_be_read_in_two_ways_is_asked_about_and_taken_as_told() -> None:
    values = {BYTES: ("786.432", "byte"), TIME: ("204.800", "ns"), FFMA: ("65.536", "inst")}
    with pytest.raises(BadInputError, match=r"report: 786\.432 may be .*--decimal \..*786432 \(--decimal ,\)"):
        read_report(one(values), "report")
    for decimal, moved in ((",", 786432), (".", 786.432)):
        (launch,) = read_report(one(values), "report", decimal)
        assert counts(launch).dram_bytes == moved
    (launch,) = read_report(one(values | {"launch__waves_per_multiprocessor": ("0,24", "")}), "report")
    assert counts(launch).dram_bytes == 786432


def test_utf16_of_powershell_and_windows_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "report.csv"
    file.write_text(one({BYTES: ("1,024", "byte")}).replace("\n", "\r\n"), encoding="utf-16", newline="")
    (launch,) = read_report_file(file)
    assert counts(launch).dram_bytes == 1024


def test_reports_written_one_after_another_into_one_file() -> None:
    text = one({BYTES: ("1", "byte")}) + "==PROF== Connected\n" + one({BYTES: ("2", "Kbyte"), TIME: ("3", "ns")})
    first, second = read_report(text, "report")
    assert (counts(first).dram_bytes, counts(second).dram_bytes) == (1, 2000)
    assert (first.table, second.table) == (0, 1)


def test_table_saved_again_by_pandas() -> None:
    """An index column in front, and launch numbers that became floats because the row of units had none."""
    lines = one({BYTES: ("1024", "byte")}).splitlines()
    text = "\n".join([f",{lines[0]}", f"0,{lines[1]}", f"1,{lines[2].replace(chr(34) + '0' + chr(34), '0.0', 1)}"])
    (launch,) = read_report(text, "report")
    assert launch.launch == 0
    assert counts(launch).dram_bytes == 1024


def test_wide_table_without_units_is_read_in_base_units_and_says_so() -> None:
    (launch,) = read_report(one({BYTES: ("1,024", "byte"), TIME: ("512", "ns")}, with_units=False), "report")
    assert counts(launch).time_s == pytest.approx(512e-9)
    assert any("base units assumed" in note for note in launch.notes)
    with pytest.raises(BadInputError, match=r"looks scaled.*--print-units base"):
        read_report(one({BYTES: ("805.31", "Mbyte")}, with_units=False), "report")


def test_nvtx_ranges_and_the_kernels_own_name() -> None:
    column = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
    payload = "none:none:none:none:none:none"
    cell = f'465  "<default domain>:outer:{payload}"  "<default domain>:gemm/size=1:x:{payload}" '
    header = ["ID", "Process ID", column, "Kernel Name", BYTES]
    rows = [header, ["", "", "", "", "byte"], ["0", "1", cell, "outer/gemm/size=1:x/k(int)", "5"]]
    (launch,) = read_report(text_of(rows), "report")
    assert launch.nvtx == ["outer", "gemm/size=1:x"]
    assert launch.function == "k(int)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("hello\nworld\n", r"none of ncu's tables.*hello \| world"),
        ('"ID","Kernel Name","dram__bytes.sum"\n', "no row below it"),
        ('"#","Address","Source","Warp Stall Sampling"\n"1","0x1","MOV"\n', "source page"),
        ('"ID","Kernel Name","Metric Name"\n"0","k","dram__bytes.sum"\n', "none of ncu's tables"),
        ('{"schemaVersion": 1, "traceEvents": []}', "trace of the PyTorch profiler.*perfetto"),
        ('[\n{"name": "k", "ph": "X", "ts": 1}]', "trace of the PyTorch profiler"),
        ("timestamp, pstate, clocks.current.sm [MHz]\n2026/07/03, P0, 345 MHz\n", "log of nvidia-smi"),
        ("# gpu   pwr gtemp\n    0  77  30\n", "log of nvidia-smi"),
        ("Time(%),Total Time (ns),Instances,Name\n1,2,3,k\n", "summary of Nsight Systems.*nsys stats"),
        ("WARNING: Existing SQLite export found: a.sqlite\n  File is older than input file\n", "--force-export=true"),
    ],
)
def test_what_is_no_report_is_named(text: str, said: str) -> None:
    with pytest.raises(BadInputError, match=f"(?s)report: no launch to read: .*{said}"):
        read_report(text, "report")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ncu08_permission.txt", "ERR_NVGPUCTRPERM.*NVreg_RestrictProfilingToAdminUsers=0"),
        ("ncu12_unknown_metric.txt", "dram__bytes_total"),
        ("ncu15b_nsys_kern_sum.csv", "Nsight Systems"),
        ("h200_no_kernels.txt", "no kernel was profiled"),
        ("absent.csv", "cannot be read"),
    ],
)
def test_files_without_launches_say_the_cause(name: str, said: str) -> None:
    with pytest.raises(BadInputError, match=said) as caught:
        read(name)
    assert "\n" not in str(caught.value)


def test_kernels_with_commas_quotes_and_templates_keep_their_names() -> None:
    names = ['void a::k<float, (int)3>(T1 *, "x")', "k(int, int)"]
    launches = read_report(wide([{BYTES: "1"}, {BYTES: "2"}], {BYTES: "byte"}, names=names), "report")
    assert [launch.kernel for launch in launches] == names


@pytest.mark.parametrize("name", ["report.csv", "report.ncu-rep"])
@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "empty file"),
        (b" \n\n", "empty file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", "git lfs pull"),
        (b"SQLite format 3\0\x10\0\1\1", "SQLite database.*nsys stats"),
        (b"PK\3\4\x14\0\0\0", "zip archive; unpack"),
        (b"\x1f\x8b\x08\0\0", "gunzip"),
        (b"\x7fELF\2\1\1\0", "a program"),
        (b"<html><body>404</body></html>", "web page"),
    ],
)
def test_what_a_file_is_by_its_first_bytes(tmp_path: Path, name: str, data: bytes, told: str) -> None:
    file = tmp_path / name
    file.write_bytes(data)
    with pytest.raises(BadInputError, match=f"this is .*{told}") as caught:
        read_report_file(file)
    assert "nstall" not in str(caught.value)


def test_binary_reports_are_told_by_their_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An .ncu-rep is imported under any name; a table is read as one under that of an .ncu-rep."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    file = tmp_path / "report.csv"
    file.write_bytes(b"NVR\0\1\2")
    with pytest.raises(BadInputError, match=r"read by ncu, which was not found"):
        read_report_file(file)
    file.write_bytes(b"abc\0\1\2")
    with pytest.raises(BadInputError, match=r"binary.*\.ncu-rep"):
        read_report_file(file)
    table = tmp_path / "report.ncu-rep"
    table.write_text(one({BYTES: ("1,024", "byte")}))
    assert counts(read_report_file(table)[0]).dram_bytes == 1024
