"""What the site takes from elsewhere: benchmark pages with pictures, notebooks, the API, and options of commands."""

import ast
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(\]\()([^)#\s:]+)(#[^)\s]*)?\)")
PACKAGES = (
    "divergence",
    "models",
    "posteriors",
    "evaluate",
    "games",
    "plots",
    "datasets",
    "results",
    "types",
    "attacks",
    "running",
)

_TAGS = ("table", "tr", "th", "td")
_MADE_BY = re.compile(r"^Made by (?:`[^`]*`|[^`.:;])*[.:;]\s*")
"""The program of a page, which says nothing about its subject."""
_SENTENCE = re.compile(r"(?<![A-Z]\.)(?<!\bal\.)(?<=\.)\s")
"""Between two sentences, but not after an initial or "et al."."""
_WIDE = 4  # columns from which a table is wider than a phone
VERBS = (
    "audit",
    "recover",
    "diagnose",
    "plan",
    "sanitise",
    "reconstruct",
    "deletion",
    "infer_deletion",
    "bound",
    "witness",
)


def _title(path):
    return path.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")


def exported(path):
    """Names that an `__init__` imports for others, `import name as name`."""
    inside = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return sorted({a.asname for n in inside if isinstance(n, ast.ImportFrom) for a in n.names} - {None, "__version__"})


def in_order(names):
    """Verbs first, in the order of use."""
    return [*(v for v in VERBS if v in names), *(name for name in names if name not in VERBS)]


def reference():
    """`{page: text}` of the API pages: one for the package, one for each package that it names."""
    modules = {"bayesrecon": ROOT / "bayesrecon/__init__.pyi", "bayesrecon.types": ROOT / "bayesrecon/types.py"}
    for name in [name for name in PACKAGES if name != "types"]:
        folder = ROOT / name if name in ("models", "posteriors") else ROOT / "bayesrecon" / name
        stub = folder / "__init__.pyi"
        modules[f"bayesrecon.{name}"] = stub if stub.exists() else folder / "__init__.py"
    pages = {}
    for module, path in modules.items():
        names = [name for name in exported(path) if name not in PACKAGES]
        if names:
            listed = "\n\n".join(f"::: {module}.{name}" for name in in_order(names))
            pages[f"api/{module}.md"] = f"# {module}\n\n{listed}\n"
    return pages


def commands():
    """The options of every command, as its help has them: a table each."""
    from typer.main import get_command

    from bayesrecon.cli.main import SHOWN, app

    group, parts = get_command(app), []
    for name, (panel, example) in sorted(SHOWN.items(), key=lambda item: list(SHOWN).index(item[0])):
        command = group.get_command(None, name)
        parts.append(f"## {name}\n\n*{panel}.* {_escaped(command.help or '')}\n\n```sh\nbayesrecon {example}\n```\n")
        rows = [row for param in command.params if (row := _row(param))]
        parts.append("| | | default |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _row(param):
    """A line of the table: names, what it is, and the default where there is one worth saying."""
    if param.name in ("help", "install_completion", "show_completion") or getattr(param, "hidden", False):
        return None
    is_argument = param.param_type_name == "argument"
    names = [param.name.upper()] if is_argument else [*param.opts, *param.secondary_opts]
    told = "" if param.default in (None, False, ()) or callable(param.default) else f"`{param.default}`"
    words = _escaped(getattr(param, "help", "") or "").replace("|", "\\|")
    needed = " **Required.**" if param.required else ""
    return f"| {', '.join(f'`{n}`' for n in names)} | {words}{needed} | {told} |"


def _escaped(text):
    return " ".join(text.split()).replace("<", "&lt;").replace("[", "\\[").replace("*", "\\*").replace("_", "\\_")


def measurements():
    """The benchmark pages: title and first sentence."""
    rows = []
    for page in sorted((ROOT / "benchmarks").rglob("*.md"), key=_title):
        body = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL).partition("\n")[2]
        parts = (_MADE_BY.sub("", " ".join(part.split())) for part in body.split("\n\n"))
        plain = (p for p in parts if p and not re.match(r"[#|<!]|[*-] |python ", p))
        first = _SENTENCE.split(next(plain, ""), maxsplit=1)[0]
        first = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first).replace("|", "\\|")
        rows.append(f"| [{_title(page)}]({page.relative_to(ROOT).as_posix()}) | {first} |")
    return "| page | what it is about |\n|---|---|\n" + "\n".join(rows) + "\n"


MADE = {"commands.md": commands, "benchmark_pages.md": measurements}
"""Pages whose second half is made here."""


def on_config(config):
    """Pages that are found, not listed."""
    pages = [{"Commands": "commands.md"}, {"Glossary": "glossary.md"}]
    found = {"Reference": [*pages, *({Path(p).stem: p} for p in reference()), {"JSON": "json.md"}]}
    for entry in config.nav:
        for section in entry.keys() & found.keys():
            entry[section] = found[section]
    return config


def _outside():
    """`{page of the site: file of the repository}` of what does not lie in this folder."""
    found = {name: name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")}
    found |= {"CITATION.cff": "CITATION.cff", "LICENSE": "LICENSE"}
    patterns = (("benchmarks", "*.md"), ("benchmarks", "*.png"), ("examples/images", "*.png"), ("examples", "*.ipynb"))
    for folder, pattern in patterns:
        for path in (ROOT / folder).rglob(pattern):
            found[path.relative_to(ROOT).as_posix()] = path.relative_to(ROOT).as_posix()
    return {page: path for page, path in found.items() if (ROOT / path).exists()}


def on_files(files, config):
    """Adds them."""
    for page, path in _outside().items():
        executed = ROOT / "build" / path  # notebooks with what they print (`.ci/docs`)
        files.append(File.generated(config, page, abs_src_path=str(executed if executed.exists() else ROOT / path)))
    for page, text in reference().items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links are those of the repository; here they become those of the site."""
    outside = _outside()
    if page.file.src_uri.startswith("benchmarks/"):
        page.meta["hide"] = ["toc"]  # their tables are wide
    if page.file.src_uri in MADE:
        markdown += "\n" + MADE[page.file.src_uri]()
    if page.file.src_uri.startswith("api/"):
        return markdown
    source = outside.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    sites = {path: where for where, path in outside.items()} | {"README.md": "index.md"}

    def moved(match):
        before, target, anchor = match[1], match[2], match[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        where = sites.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if where is None:
            return match[0]
        here = posixpath.dirname(page.file.src_uri) or "."
        return f"{before}{posixpath.relpath(where, here)}{anchor})"

    return LINK.sub(moved, markdown)


TABLE, ROW, HEAD, CELL = (re.compile(rf"<{tag}(?P<more>[^>]*)>(?P<body>.*?)</{tag}>", re.DOTALL) for tag in _TAGS)


def on_page_content(html, page, config, files):
    """Cells of wide tables say which column they are of: on narrow screens a row is a list (`theme/site.css`)."""
    return TABLE.sub(_labelled, html)


def _labelled(table):
    heads = [
        re.sub(r"<[^>]+>", "", head["body"]).strip().replace('"', "&quot;") for head in HEAD.finditer(table["body"])
    ]
    if table["more"] or len(heads) < _WIDE:
        return table[0]

    def row(found):
        names = iter(heads)
        body = CELL.sub(lambda c: f'<td{c["more"]} data-label="{next(names, "")}">{c["body"]}</td>', found["body"])
        return f"<tr{found['more']}>{body}</tr>"

    return f'<table data-columns="{len(heads)}">{ROW.sub(row, table["body"])}</table>'
