"""``gpuemu ptx``: errors of ptxas on their line, the instruction mix, and the difference of two files."""

from __future__ import annotations

import json

import pytest

from gpuemu_lsp.cli.gpuemu import main as gpuemu

PTX = """\
.version 8.5
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 x)
{
\t.reg .b64 %rd<3>;
\t.reg .f32 %f<3>;
\tld.param.u64 %rd1, [x];
\tcvta.to.global.u64 %rd2, %rd1;
\tld.global.f32 %f1, [%rd2];
\tadd.f32 %f2, %f1, %f1;
\tst.global.f32 [%rd2], %f2;
\tret;
}
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(text, name="k.ptx"):
        (tmp_path / name).write_text(text)
        return name

    return write


def test_registers_and_instruction_mix(file, capsys):
    assert gpuemu(["ptx", file(PTX)]) == 0
    first, *mix = capsys.readouterr().out.splitlines()
    assert first.startswith("twice: 6 instructions, ") and first.endswith("0 bytes spilled, 0 bytes of shared memory")
    assert dict(reversed(line.split()) for line in mix) == {
        "ld.param.u64": "1",
        "cvta.to.global.u64": "1",
        "ld.global.f32": "1",
        "add.f32": "1",
        "st.global.f32": "1",
        "ret": "1",
    }
    assert gpuemu(["ptx", "k.ptx", "--format", "json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert kernel["instructions"]["add.f32"] == 1 and kernel["resources"]["registers"] > 0


@pytest.mark.parametrize(
    ("before", "after", "line", "says"),
    [
        ("\tadd.f32 %f2, %f1, %f1;", "\tmov.u64 %rd1, smem_0;\n\tadd.f32 %f2, %f1, %f1;", 11, "smem_0"),
        ("add.f32 %f2, %f1, %f1", "add.f32 %f2, %f1", 11, ""),
        ("add.f32 %f2, %f1, %f1;", "wgmma.fence.sync.aligned;", 11, "not supported on .target 'sm_80'"),
    ],
)
def test_an_error_of_ptxas_is_on_its_line(file, capsys, before, after, line, says):
    text = PTX.replace(before, after)
    assert gpuemu(["ptx", file(text)]) == 1
    printed = capsys.readouterr().out.splitlines()
    found = [index for index, one in enumerate(printed) if one.startswith(f"k.ptx:{line}: error: ")]
    assert any(says in printed[index] for index in found)
    assert {printed[index + 1] for index in found} == {f"  {line} | {text.splitlines()[line - 1].strip()}"}


def test_what_two_files_do_differently(file, capsys):
    renumbered = PTX.replace("%f2", "%f0")
    assert gpuemu(["ptx", file(PTX), file(renumbered, "same.ptx")]) == 0
    assert capsys.readouterr().out == "The kernels do the same.\n"
    renamed = (
        renumbered.replace("twice", "thrice").replace("%f1, %f1;", "%f1, 0f40400000;").replace("add.f32", "mul.f32")
    )
    assert gpuemu(["ptx", "k.ptx", file(renamed, "other.ptx")]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert [line[:9] for line in printed] == ["@@ twice ", "- add.f32", "+ mul.f32"]
    both = PTX + PTX.partition("64\n")[2].replace("twice", "other")
    assert gpuemu(["ptx", "k.ptx", file(both, "both.ptx"), "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"version": 1, "only": {"other": 1}, "hunks": []}


def test_files_that_cannot_be_read(file, capsys):
    assert gpuemu(["ptx", "none.ptx"]) == 2
    assert "none.ptx: No such file" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        gpuemu(["ptx", file(PTX), file(PTX), file(PTX)])


def test_lint_of_a_ptx_file_asks_for_the_kernel_before_it_searches_the_folder(file, capsys, monkeypatch):
    from gpuemu_lsp.cli.commands import lint

    monkeypatch.setattr(lint, "find_targets", lambda *_: pytest.fail("the folder was searched"))
    assert gpuemu(["lint", "--ptx", file(PTX)]) == 2
    assert "--ptx needs --kernel" in capsys.readouterr().err
