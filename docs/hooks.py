"""What the site takes from elsewhere in the repository: README, benchmark pages with their pictures, and the API."""

import ast
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(\]\()([^)#\s:]+)(#[^)\s]*)?\)")
PACKAGES = ("models", "posteriors", "evaluate", "games", "plots", "datasets", "results", "types", "attacks", "running")


def _title(path):
    return path.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")


def exported(path):
    """Names that an `__init__` imports for others, `import name as name`."""
    inside = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return sorted({a.asname for n in inside if isinstance(n, ast.ImportFrom) for a in n.names} - {None, "__version__"})


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
            listed = "\n\n".join(f"::: {module}.{name}" for name in names)
            pages[f"api/{module}.md"] = f"# {module}\n\n{listed}\n"
    return pages


def on_config(config):
    """Pages that are found, not listed."""
    measured = [{"Summary": "measured.md"}]
    measured += [{_title(p): f"benchmarks/{p.name}"} for p in sorted((ROOT / "benchmarks").glob("*.md"))]
    found = {"Measured": measured, "Reference": [{Path(p).stem: p} for p in reference()] + [{"JSON": "json.md"}]}
    for entry in config.nav:
        for section in entry.keys() & found.keys():
            entry[section] = found[section]
    return config


def _outside():
    """`{page of the site: file of the repository}` of what does not lie in this folder."""
    found = {"index.md": "README.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md"}
    found["SECURITY.md"] = "SECURITY.md"
    found |= {"CITATION.cff": "CITATION.cff", "LICENSE": "LICENSE"}
    for folder, pattern in (("benchmarks", "*.md"), ("benchmarks", "*.png"), ("examples", "images/*.png")):
        for path in (ROOT / folder).glob(pattern):
            found[path.relative_to(ROOT).as_posix()] = path.relative_to(ROOT).as_posix()
    return {page: path for page, path in found.items() if (ROOT / path).exists()}


def on_files(files, config):
    """Adds them."""
    for page, path in _outside().items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
    for page, text in reference().items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links are those of the repository; here they become those of the site."""
    outside = _outside()
    if page.file.src_uri.startswith("api/"):
        return markdown
    source = outside.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    sites = {path: where for where, path in outside.items()}

    def moved(match):
        before, target, anchor = match[1], match[2], match[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        where = sites.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if where is None:
            return match[0]
        here = posixpath.dirname(page.file.src_uri) or "."
        return f"{before}{posixpath.relpath(where, here)}{anchor})"

    return LINK.sub(moved, markdown)
