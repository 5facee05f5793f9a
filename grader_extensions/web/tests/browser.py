"""The screens, pages and texts that tests in a browser share. EVIL does harm where it is not escaped."""

from contextlib import asynccontextmanager

DESKTOP = {"width": 1200, "height": 900}
EVIL = (
    "<script>document.title='ran'</script>\"onmouseover=\"document.title='ran'\" x='\"><img src=x onerror=document.title='ran'>"
    "]]></pre></bdi></a></title></textarea><svg onload=document.title='ran'>{{ 7 * 1000429 }}{% raw %}\u202egnp\u2066\x1b]0;ran\x07\x00"
)

NARROW = {"width": 360, "height": 740}  # a phone


@asynccontextmanager
async def reader(browser, size=NARROW, **options):
    """A page that notes what it complains of, and the URLs that it asks for."""
    context = await browser.new_context(viewport=size, **options)
    page = await context.new_page()
    page.complaints, page.urls = [], []
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("request", lambda request: page.urls.append(request.url))
    try:
        yield page
    finally:
        await context.close()
