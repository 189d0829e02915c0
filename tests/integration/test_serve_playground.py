"""The page at `/` in a real browser: headless Chromium, driven by keyboard and mouse."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeRetriever, resolver_that
from langchain_core.documents import Document

from ixchat.nodes.deps import Deps
from ixchat.serve import build_app
from ixchat.serve.server import Server
from ixchat.serve.spans import RecentSpans
from ixchat.utils.names import append_name
from ixinfra.config.loader import get_config
from ixinfra.errors import UnknownTenantError
from ixinfra.tracing import build_tracer

webdriver = pytest.importorskip("selenium.webdriver", reason="the browser test needs: pip install selenium")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER), reason="no Chromium here: apt-get install chromium chromium-driver"
    ),
]
from selenium.webdriver.common.by import By  # noqa: E402 - after the check that selenium is there
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

KEY = "k3y-of-the-shop"
FOLLOW_UP = "Which retailers already run it today?"


class TwoPassages(FakeRetriever):
    """Finds one passage for a resolved text and another for a visitor's own words."""

    async def ainvoke(self, input: str, **kwargs: Any) -> list[Document]:
        await super().ainvoke(input, **kwargs)
        source = "resolved.md" if "—" in input else "own-words.md"
        return [Document("A passage", metadata={"kind": "chunk", "source": source, "chunk_id": source})]


class TwoTenants:
    """`advanced` resolves to a product with evidence in the conversation; `lite` has no graph."""

    def __init__(self, tracer: Any) -> None:
        found = TwoPassages(delay_s=0.1)
        resolver = resolver_that(lambda turn: append_name(turn, "Badgeo"), delay_s=0.02)
        self._deps = {
            "advanced": Deps(
                found,
                reference_resolver=resolver,
                keyword_resolver=resolver,
                tenant_id="advanced",
                tracer=tracer,
            ),
            "lite": Deps(FakeRetriever(rag_mode="naive"), tenant_id="lite", tracer=tracer),
        }

    @asynccontextmanager
    async def lend(self, tenant_id: str) -> AsyncIterator[Deps]:
        if tenant_id not in self._deps:
            raise UnknownTenantError(f"unknown tenant {tenant_id!r}")
        yield self._deps[tenant_id]


@contextlib.contextmanager
def serving(**settings: Any) -> Iterator[str]:
    """A server in a thread of its own; gives its address."""
    config = get_config("test")
    config = config.model_copy(update={"serve": config.serve.model_copy(update=settings)})
    spans = RecentSpans()
    tracer = build_tracer(config.tracing, also=[spans])
    app = build_app(config, TwoTenants(tracer), tracer=tracer, spans=spans, environ={"SHOP_KEY": KEY})
    server = Server(app, host="127.0.0.1", port=0)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    ends_s = time.monotonic() + 30
    while not server.started and time.monotonic() < ends_s:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(10)


class Browser:
    """What a person does on the page."""

    def __init__(self, folder: Path) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        for argument in (
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            f"--user-data-dir={folder}",
        ):
            options.add_argument(argument)
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))

    def open(self, address: str, *, width: int = 1280, dark: bool = False) -> None:
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.command("Emulation.setEmulatedMedia", features=scheme)
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=850,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.driver.get(address)

    def command(self, name: str, **arguments: Any) -> Any:
        return self.driver.execute_cdp_cmd(name, arguments)

    def run(self, script: str) -> Any:
        return self.driver.execute_script(script)

    def wait(self, condition: Callable[[], Any]) -> Any:
        return WebDriverWait(self.driver, 30).until(lambda _driver: condition())

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> Any:
        return self.wait(lambda: next(iter(self.all(selector)), None))

    def texts(self, selector: str) -> list[str]:
        return [str(element.text) for element in self.all(selector)]

    def ready(self) -> None:
        self.wait(lambda: self.all("#tenant option") and self.one("#send").is_enabled())

    def say(self, message: str) -> None:
        """Type a message, send it with Enter, wait for the end of the turn."""
        self.ready()
        turns = len(self.all(".turn"))
        self.one("#message").send_keys(message, Keys.ENTER)
        self.wait(lambda: len(self.all(".turn")) == turns + 1 and self.one("#send").is_enabled())

    def press(self, *keys: str) -> str:
        """Press keys where the focus is; the id, else the text, of what has it then."""
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)
        return str(self.run("const at = document.activeElement; return at.id || at.textContent.trim()"))

    def edit_answer(self, text: str) -> None:
        self.all(".under .link")[-1].click()
        self.run("document.getElementById('edited').value = ''")
        field = self.one("#edited")
        self.run(f"document.getElementById('edited').value = {text!r}")
        field.send_keys(Keys.TAB, Keys.NULL)
        next(button for button in self.all(".turn button") if button.text == "Keep").click()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving() as found:
        yield found


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.driver.quit()


@pytest.fixture
def page(chromium: Browser, address: str) -> Iterator[Browser]:
    chromium.open(address)
    chromium.ready()
    yield chromium
    problems = [entry["message"] for entry in chromium.driver.get_log("browser")]
    assert problems == [], "the console is not clean"


def test_a_turn_shows_what_was_searched_and_why(page: Browser) -> None:
    page.say("Do you have anything for shops?")
    assert "nothing before it" in page.one(".verdict").text
    page.edit_answer("🎉 Yes: Badgeo counts who comes in.")
    page.say(FOLLOW_UP)
    assert page.one(".verdict .decision").text == "Resolved: Badgeo"
    assert page.one(".verdict .searched").text == f"{FOLLOW_UP} — Badgeo"
    assert page.texts(".turn mark") == ["Badgeo"], "highlighted in the conversation, also after an emoji"
    assert page.texts(".evidence mark") == ["Badgeo"]
    lanes = page.texts(".time li")
    assert any(lane.startswith("early search") and "cancelled (superseded)" in lane for lane in lanes)
    assert any(lane.startswith("second search") and "used" in lane for lane in lanes)
    assert page.one(".passages .source").text == "resolved.md"
    assert {"agent-knowledge-retriever", "tool-query-reference", "answer-writer"} <= set(
        page.texts(".spans .name")
    )
    assert "Resolved: Badgeo" in page.one("#status").text
    page.all(".chip")[0].click()
    assert "nothing before it" in page.one(".verdict").text, "an earlier turn can be looked at again"
    assert page.texts(".turn mark") == []


def test_the_rewriter_can_be_compared_and_switched_off(page: Browser) -> None:
    page.say("Do you have Badgeo?")
    page.say(FOLLOW_UP)
    page.one("#compare").click()
    page.one("#comparison")
    assert page.texts("#comparison .searched") == [f"{FOLLOW_UP} — Badgeo", FOLLOW_UP]
    page.one("label.switch").click()
    page.say("And which restaurants already run it today?")
    assert "The rewriter is off." in page.one(".verdict").text


def test_another_tenant_is_another_conversation(page: Browser) -> None:
    page.say("Do you have Badgeo?")
    assert page.one("#mode").text == "passages + graph"
    page.run(
        "const t = document.getElementById('tenant'); t.value = 'lite'; t.dispatchEvent(new Event('change'))"
    )
    assert page.all(".turn") == []
    assert page.one("#mode").text == "passages"
    page.say("Do you have Badgeo?")
    assert "none on this tier" in page.one("#details").text


def test_everything_can_be_reached_and_used_with_the_keyboard_alone(page: Browser) -> None:
    order = [page.press(Keys.TAB) for _ in range(4)]
    assert order == ["Skip to the message field", "tenant", "rewriter", "restart"]
    page.run("document.activeElement.blur(); document.querySelector('.skip').focus()")
    assert page.press(Keys.ENTER, Keys.TAB) in ("message", "send")
    page.say("Do you have Badgeo?")
    page.say(FOLLOW_UP)
    page.run("document.getElementById('message').focus()")
    seen = [page.press(Keys.SHIFT + Keys.TAB) for _ in range(4)]
    assert "Resolved: Badgeo" in seen
    assert page.run("return document.querySelectorAll('.chip[aria-current=true]').length") == 1


def test_every_control_has_a_name_that_a_screen_reader_can_say(page: Browser) -> None:
    page.say("Do you have Badgeo?")
    tree = page.command("Accessibility.getFullAXTree")["nodes"]
    controls = [
        node
        for node in tree
        if node.get("role", {}).get("value") in ("button", "textbox", "combobox", "switch", "list", "region")
        and not node.get("ignored")
    ]
    roles = {node["role"]["value"] for node in controls}
    assert {"button", "textbox", "combobox", "switch"} <= roles
    unnamed = [
        node["role"]["value"]
        for node in controls
        if node["role"]["value"] != "list" and not node.get("name", {}).get("value", "").strip()
    ]
    assert unnamed == []
    assert page.one("#status").get_attribute("aria-live") == "polite"


def test_what_a_visitor_types_is_text_and_nothing_comes_from_elsewhere(page: Browser, address: str) -> None:
    attack = "<img src=x onerror=alert(1)> <b>Badgeo</b>"
    page.say(attack)
    assert attack in page.one(".visitor").text
    assert page.all("#turns img, #details img, #turns b") == []
    loaded = page.run("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert loaded
    assert all(name.startswith(address) for name in loaded)


CONTRAST = """
const style = getComputedStyle(document.documentElement);
const light = (name) => {
  const hex = style.getPropertyValue(name).trim().slice(1);
  const [r, g, b] = [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ratio = (one, other) => {
  const [a, b] = [light(one), light(other)].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
};
const pairs = [["--ink", "--ground"], ["--ink", "--paper"], ["--soft", "--ground"], ["--soft", "--paper"],
  ["--ink", "--visitor"], ["--on-accent", "--accent"], ["--mark-ink", "--mark"], ["--resolve", "--paper"],
  ["--keep", "--paper"], ["--ambiguous", "--paper"], ["--error", "--paper"], ["--resolve", "--ground"]];
return Object.fromEntries(pairs.map(([one, other]) => [one + " on " + other, ratio(one, other)]));
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_stands_out_in_light_and_in_dark(chromium: Browser, address: str, dark: bool) -> None:
    chromium.open(address, dark=dark)
    chromium.ready()
    background = chromium.run("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, background[4:-1].split(","))) < 200) is dark
    weak = {pair: ratio for pair, ratio in chromium.run(CONTRAST).items() if ratio < 4.5}
    assert weak == {}, "WCAG AA asks for 4.5"


def test_a_phone_shows_everything_without_scrolling_sideways(chromium: Browser, address: str) -> None:
    chromium.open(address, width=360)
    chromium.say("Do you have Badgeo?")
    chromium.say(FOLLOW_UP)
    chromium.one("#compare").click()
    chromium.one("#comparison")
    assert chromium.run("return document.documentElement.scrollWidth") <= 360
    chromium.all(".chip")[-1].click()
    assert chromium.run("return document.activeElement.id") == "why", "the reasons are brought into view"
    assert chromium.run("return document.getElementById('why').getBoundingClientRect().top") < 850


def test_a_server_with_a_key_asks_for_it(chromium: Browser) -> None:
    with serving(api_key_env="SHOP_KEY") as address:
        chromium.open(address)
        chromium.wait(lambda: chromium.one("#key").is_displayed())
        chromium.one("#key").send_keys(KEY, Keys.ENTER)
        chromium.say("Do you have Badgeo?")
        assert "nothing before it" in chromium.one(".verdict").text
    chromium.driver.get_log("browser")  # the refused request is in the console, rightly
