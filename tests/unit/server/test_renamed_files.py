"""Files that gpuemu.toml names, renamed while it is not open."""

from __future__ import annotations

import asyncio

from gpuemu_lsp.server.documents.locations import uri_from_path


def config_rules(harness) -> list[str]:
    uri = uri_from_path((harness.root / "gpuemu.toml").as_posix())
    sent = [
        params for method, params in harness.sent if method == "textDocument/publishDiagnostics" and params.uri == uri
    ]
    return [item.code for item in sent[-1].diagnostics] if sent else []


async def settle(harness) -> None:
    await harness.services.session.parsed_files.run_in_thread(int)
    await asyncio.sleep(0.1)
    await harness.services.session.parsed_files.run_in_thread(int)
    await asyncio.sleep(0.05)


async def test_a_renamed_source_is_reported_in_the_configuration_until_it_is_back(harness):
    harness.open()
    await (await harness.until(1))[0].finish(harness.report())
    source, other = harness.root / "scale.cu", harness.root / "other.cu"
    for before, after, expected in ((source, other, ["config/missing-file"]), (other, source, [])):
        before.rename(after)
        harness.services.sync.changed_on_disk([before.as_posix(), after.as_posix()])
        await settle(harness)
        assert config_rules(harness) == expected
