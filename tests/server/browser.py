"""What tests in a browser share: the sizes of screens, and a text that does harm where it is not escaped."""

PHONE = {"width": 360, "height": 740}
DESKTOP = {"width": 1200, "height": 900}
EVIL = (
    "<script>document.title='ran'</script>\"onmouseover=\"document.title='ran'\" x='\"><img src=x onerror=document.title='ran'>"
    "]]></pre></bdi></a></title></textarea><svg onload=document.title='ran'>{{ 7 * 1000429 }}{% raw %}\u202egnp\u2066\x1b]0;ran\x07\x00"
)
