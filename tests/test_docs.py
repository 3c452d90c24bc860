"""Tests that the docs describe every setting, that the settings named in pages exist, and that links have a target."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic_settings import BaseSettings

from api.settings import ApiSettings
from gradebox.service.logs import LogSettings
from models.settings import ModelSettings
from sandbox.settings import SandboxSettings
from storage.settings import StorageSettings
from worker.environments.settings import EnvironmentSettings
from worker.settings import WorkerSettings

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("*.md"), *DOCS.glob("*.md"), ROOT / "examples" / "README.md", ROOT / "benchmarks" / "NOTES.md"]
SETTINGS = [
    ApiSettings,
    EnvironmentSettings,
    LogSettings,
    ModelSettings,
    SandboxSettings,
    StorageSettings,
    WorkerSettings,
]


def _names(settings: type[BaseSettings]) -> set[str]:
    prefix = settings.model_config.get("env_prefix") or ""
    return {f"{prefix}{name}".upper() for name in settings.model_fields}


@pytest.mark.parametrize("settings", SETTINGS)
def test_every_setting_is_in_the_docs(settings: type[BaseSettings]) -> None:
    written = (DOCS / "settings.md").read_text()
    missing = [name for name in _names(settings) if f"`{name}`" not in written.upper()]
    assert not missing, f"docs/settings.md does not say what these are: {missing}"


def test_the_settings_that_a_page_names_are_documented() -> None:
    documented = (DOCS / "settings.md").read_text() + (DOCS / "deployment.md").read_text()
    for page in PAGES:
        named = set(re.findall(r"\bGRADEBOX_[A-Z_]+\b", page.read_text()))
        assert {name for name in named if f"`{name}`" not in documented} == set(), page


def _links(page: Path) -> Iterator[str]:
    """The links of a page to files of this repository."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if not target.startswith(("http://", "https://")):
            yield target


def _anchors(page: Path) -> set[str]:
    """The anchors that GitHub generates for a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for link in _links(page):
            name, _, anchor = link.partition("#")
            target = page.parent / name if name else page
            assert target.exists(), (page, link)
            assert not anchor or anchor in _anchors(target), (page, link)


def test_graders_that_a_page_shows_give_no_warning_of_annotations() -> None:
    for block in re.findall(r"```python\n(.*?)```", "\n".join(page.read_text() for page in PAGES), re.DOTALL):
        if "async def grade(" in block and "do not do this" not in block:
            assert re.search(r"async def grade\((\w+: StringThread|\w+: list\[StringThread\])\) -> \S+:", block), block
            assert re.search(r"^from gradebox import .*StringThread", block, re.MULTILINE), block
