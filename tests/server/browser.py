"""The screens, pages and texts that tests in a browser share. EVIL does harm where it is not escaped."""

from contextlib import asynccontextmanager

PHONE = {"width": 360, "height": 740}
DESKTOP = {"width": 1200, "height": 900}
EVIL = (
    "<script>document.title='ran'</script>\"onmouseover=\"document.title='ran'\" x='\"><img src=x onerror=document.title='ran'>"
    "]]></pre></bdi></a></title></textarea><svg onload=document.title='ran'>{{ 7 * 1000429 }}{% raw %}\u202egnp\u2066\x1b]0;ran\x07\x00"
)


NARROW = {"width": 390, "height": 844}
# The colours of each text and of what is behind it, and the ratio between them as WCAG 2 has it; texts below what AA asks for.
CONTRAST = """() => {
  const parts = (color) => color.match(/[0-9.]+/g).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((one) => one / 255)
    .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
    .reduce((sum, one, index) => sum + one * [0.2126, 0.7152, 0.0722][index], 0);
  const behind = (node) => {
    for (let one = node; one; one = one.parentElement) {
      const color = parts(getComputedStyle(one).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((one) => one.nodeType === 3 && one.data.trim());
    if (!own || node.closest("svg") || !node.getClientRects().length) continue;
    const [first, second] = [light(parts(getComputedStyle(node).color)), light(behind(node))];
    const ratio = (Math.max(first, second) + 0.05) / (Math.min(first, second) + 0.05);
    if (ratio < 4.5) found.push([node.tagName, node.className, node.textContent.slice(0, 40), ratio.toFixed(2)]);
  }
  return found;
}"""


@asynccontextmanager
async def reader(browser, **options):
    """A page that notes what it complains of."""
    context = await browser.new_context(viewport=NARROW, **options)
    page = await context.new_page()
    page.complaints = []
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    try:
        yield page
    finally:
        await context.close()
