"""TeX becomes MathML while the site is built: browsers draw it without a network or a script."""

import html
import re

from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.S)
DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.S)
TAG = re.compile(r"\\tag\{(\w+)\}")
TIGHT = re.compile(r"\\(log|exp)\b(?=\s*(?:[a-z]|\\(?:bar|tfrac|frac|sigma|epsilon|omega)))")
UNKNOWN = re.compile(r"<m\w+>(\\[a-zA-Z]+)<")


def mathml(tex: str, display: str) -> str:
    """One formula, or an error that names the command which the converter does not know."""
    known = re.sub(r"\\arg\b", r"\\operatorname{arg}", tex.strip())
    drawn = convert(TIGHT.sub(r"\\\1\\,", known), display=display)
    unknown = UNKNOWN.search(drawn)
    if unknown is not None:
        raise ValueError(f"{tex}: got {unknown[1]}, expected a command that latex2mathml knows")
    return drawn


def inline(match: re.Match[str]) -> str:
    """A formula in a sentence."""
    return mathml(html.unescape(match[1]), "inline")


def display(match: re.Match[str]) -> str:
    """An equation; its number stands to the right and is an anchor."""
    tex = html.unescape(match[1])
    number = TAG.search(tex)
    drawn = mathml(TAG.sub("", tex), "block")
    name, told = (f' id="{number[1]}"', f"({number[1]})") if number else ("", "")
    return (
        f'<div class="equation"{name}><div class="drawn">{drawn}</div>'
        f'<span class="number">{told}</span></div>'
    )


def on_page_content(content: str, **_: object) -> str:
    """Called by mkdocs with the HTML of each page."""
    return DISPLAY.sub(display, INLINE.sub(inline, content))
