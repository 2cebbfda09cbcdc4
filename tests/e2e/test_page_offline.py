"""A page makes no request and could not: its policy allows only what it contains."""

from __future__ import annotations

import base64
import hashlib
import re

from e2e import subjects
from e2e.subjects import VIEWS
from e2e.test_page_views import show

EXACT = (
    "default-src 'none'; script-src {scripts}; style-src {styles}; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)
TRIES = {
    "fetch": "fetch('https://example.org/').then(() => 'sent', () => 'refused')",
    "the file itself": "fetch(location.href).then(() => 'sent', () => 'refused')",
    "image": """new Promise(done => {
        const image = new Image();
        image.onload = () => done('sent');
        image.onerror = () => done('refused');
        image.src = 'https://example.org/pixel.png';
    })""",
    "script": """new Promise(done => {
        const script = document.createElement('script');
        script.onerror = () => done('refused');
        script.text = 'document.title = "sent"';
        document.head.append(script);
        setTimeout(() => done(document.title === 'sent' ? 'sent' : 'refused'), 50);
    })""",
}


def digests(pattern: str, html: str) -> str:
    """The digests of all such elements, as a policy lists them."""
    texts = re.findall(pattern, html, flags=re.DOTALL)
    return " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in texts)


def test_nothing_is_requested_but_the_file(visit):
    requests = []
    page = visit()
    page.context.on("request", lambda request: requests.append(request.url))
    page.reload()
    page.locator("main h2").first.wait_for(state="attached")  # until then, the page may set its own address
    for view in VIEWS:
        show(page, view)
    own = [url for url in requests if not url.startswith(("data:", "blob:"))]
    assert {url.partition("#")[0] for url in own} == {page.url.partition("#")[0]}


def test_the_policy_is_exact(visit, written):
    html = written(subjects.rich).read_text(encoding="utf-8")
    policy = visit().locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    module = digests(r'<script type="module">(.*?)</script>', html)
    theme = digests(r"<script>(.*?)</script>", html)
    assert policy == EXACT.format(scripts=f"{module} {theme}", styles=digests(r"<style>(.*?)</style>", html))
    assert html.index("Content-Security-Policy") < html.index("<script")


def test_what_is_tried_anyway_is_refused(browser, written):
    page = browser.new_page()
    page.goto(written(subjects.rich).as_uri())
    assert {name: page.evaluate(code) for name, code in TRIES.items()} == dict.fromkeys(TRIES, "refused")
    page.close()
