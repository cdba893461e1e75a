"""Parser from the text of a Stan program to its syntax tree."""

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesrecon.errors import BayesreconError, library
from bayesrecon.models.stan import tree

if TYPE_CHECKING:
    from lark import Lark, Token, Tree
    from lark.tree import Branch, Meta

LONGEST = 1_000_000
"""Characters of a program: the longest that are written by hand or by brms have a tenth of it."""

DEEPEST = 150
"""Levels of nesting, a tenth of what the interpreter's own stack allows."""


Items = list[Any]
"""What the rules inside of a rule of the grammar made: nodes, tokens, tuples and None."""

Blocks = list[tuple[str, tuple[Any, ...]]]
"""Names of blocks with their functions or statements."""


def parse(text: str, name: str = "program") -> tree.Program:
    """The tree of a program."""
    lark = library("lark", "a Stan program", "stan")
    if len(text) > LONGEST:
        raise BayesreconError(f"{name}: {len(text)} characters, more than {LONGEST}; this is not a Stan program")
    _check_brackets(text, name)
    try:
        root = _parser().parse(text)
    except lark.exceptions.UnexpectedCharacters as error:
        raise BayesreconError(
            f"{name}, line {error.line}, column {error.column}: {text[error.pos_in_stream]!r} is not understood"
        ) from None
    except lark.exceptions.UnexpectedToken as error:
        problem = (
            "the program ends early" if error.token.type == "$END" else f"{str(error.token)[:40]!r} is not expected"
        )
        raise BayesreconError(f"{name}, line {error.line}, column {error.column}: {problem} here") from None
    blocks = _built(_shallow(root, name), name)
    parsed: dict[str, tuple[Any, ...]] = {}
    for block, body in blocks:
        if block in parsed:
            raise BayesreconError(f"{name}: there are two blocks {block.replace('_', ' ')}")
        parsed[block] = body
    program = tree.Program(name=name, source=text, **parsed)
    _check_depth(program)
    return program


def _check_brackets(text: str, name: str) -> None:
    depth = 0
    for match in re.finditer(r'//[^\n]*|/\*.*?\*/|"[^"\n]*"|[\[({]|[\])}]', text, re.DOTALL):
        depth += (match[0] in "[({") - (match[0] in "])}")
        if depth > DEEPEST:
            line = text.count("\n", 0, match.start()) + 1
            raise BayesreconError(f"{name}, line {line}: brackets nested more than {DEEPEST} deep")


def _shallow(root: "Tree[Token]", name: str) -> "Tree[Token]":
    """What the parser made, where it is not nested deeper than Python can follow."""
    import lark

    waiting: list[tuple[Branch[Token], int]] = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        if not isinstance(node, lark.Tree):  # a token, or nothing
            continue
        if depth > 3 * DEEPEST:
            raise BayesreconError(
                f"{name}, line {node.meta.line}: nested more than {DEEPEST} deep; split the expression"
            )
        waiting.extend((child, depth + 1) for child in node.children)
    return root


def _check_depth(program: tree.Program) -> None:
    waiting: list[tuple[object, int]] = []
    for block in ("functions", "data", "transformed_data", "parameters", "transformed_parameters", "model"):
        waiting.append((getattr(program, block), 0))
    waiting.append((program.generated, 0))
    while waiting:
        node, depth = waiting.pop()
        if isinstance(node, tree.Node) and depth > DEEPEST:
            raise BayesreconError(
                f"{program.name}, line {node.position[0]}: nested more than {DEEPEST} deep; split the expression"
            )
        deeper = depth + isinstance(node, tree.Node)
        waiting.extend((child, deeper) for child in tree.children(node))


@functools.cache
def _parser() -> "Lark":
    import lark

    return lark.Lark(GRAMMAR, parser="lalr", maybe_placeholders=True, propagate_positions=True)


def _built(root: "Tree[Token]", name: str) -> Blocks:
    """Nodes of what the parser read."""
    import lark

    class Builder(lark.visitors.Transformer_NonRecursive[lark.Token, Blocks]):
        def __default__(self, data: str, children: Items, meta: "Meta") -> Any:
            return _NODES[data]((getattr(meta, "line", 1), getattr(meta, "column", 1)), children)

    try:
        return Builder().transform(root)
    except BayesreconError as error:
        raise BayesreconError(f"{name}, {error}") from None


def _place(token: "Token") -> tree.Position:
    return (token.line or 1, token.column or 1)


def _entries(items: Items | None) -> tuple[Any, ...]:
    return tuple(items or ())


def _integer(token: "Token") -> int:
    value = int(token.replace("_", ""))
    if value > 2**31 - 1:
        raise BayesreconError(f"line {token.line}: {token[:40]} is too large for an integer")
    return value


def _shaped(base: str, bounds: Items | None, *sizes: tree.Expression | None) -> tree.Type:
    return tree.Type(base, (), tuple(s for s in sizes if s is not None), tuple(bounds or ()))


def _no_complex(at: tree.Position, x: Items) -> tree.Type:
    raise BayesreconError(f"line {at[0]}: complex numbers are not supported")


def _function(at: tree.Position, x: Items) -> tree.Function:
    (base, depth), name, *args, body = x
    return tree.Function(_place(name), str(name), tuple(a for a in args if a), base, depth, body)


def _declared(at: tree.Position, x: Items) -> tree.Declare | tuple[tree.Declare, ...]:
    kind, *named = x
    made = [tree.Declare(p, n, kind._replace(dims=kind.dims + d), v) for p, n, d, v in named]
    return made[0] if len(made) == 1 else tuple(made)


def _tilde(at: tree.Position, x: Items) -> tree.Tilde:
    variate, name, args, cut = x
    return tree.Tilde(at, variate, str(name), _entries(args), *(cut or (None, None)), cut is not None)  # pyright: ignore[reportCallIssue]


def _statements(items: Items) -> tuple[Any, ...]:
    return tuple(statement for item in items for statement in (item if isinstance(item, tuple) else (item,)))


_BLOCKS = ("functions", "data", "transformed_data", "parameters", "transformed_parameters", "model", "generated")
_BASES = {"row": "row_vector"} | {k: k for k in ("int", "real", "vector", "matrix", "void", "complex")}

_NODES: dict[str, Callable[[tree.Position, Items], Any]] = {
    **{name: lambda at, x, name=name: (name, _statements(x)) for name in _BLOCKS},
    **{f"a_{rule}": lambda at, x, base=base: base for rule, base in _BASES.items()},
    **dict.fromkeys(("body", "args", "indices", "truncation_two"), lambda at, x: tuple(x)),
    "start": lambda at, x: x,
    "forward": lambda at, x: None,
    "old_argtype": lambda at, x: (x[0], x[1] or 0),
    "new_argtype": lambda at, x: (x[1], x[0]),
    "argdims": lambda at, x: 1 + (x[0].count(",") if x and x[0] else 0),
    "arg": lambda at, x: tree.Argument(str(x[-1]), *x[-2]),
    "fundef": _function,
    "target_plus": lambda at, x: tree.Increment(at, x[-1]),
    "call_statement": lambda at, x: tree.CallStatement(at, tree.Call(_place(x[0]), str(x[0]), _entries(x[1]))),
    "message": lambda at, x: tree.Message(at, x[0] != "print"),
    "if_else": lambda at, x: tree.If(at, *x),
    "if_only": lambda at, x: tree.If(at, *x, None),  # pyright: ignore[reportCallIssue]
    "for_range": lambda at, x: tree.For(at, str(x[0]), *x[1:]),
    "for_each": lambda at, x: tree.For(at, str(x[0]), x[1], None, x[2]),
    "while_loop": lambda at, x: tree.While(at, *x),
    "braces": lambda at, x: tree.Block(at, tuple(x)),
    "profiled": lambda at, x: tree.Block(at, tuple(x[1:])),
    "returned": lambda at, x: tree.Return(at, x[0] if x else None),
    "broken": lambda at, x: tree.Jump(at, True),
    "continued": lambda at, x: tree.Jump(at, False),
    "nothing": lambda at, x: tree.Block(at, ()),
    "decl": _declared,
    "named": lambda at, x: (_place(x[0]), str(x[0]), _entries(x[1]), x[3]),
    "type": lambda at, x: x[1]._replace(dims=_entries(x[0])),
    "t_int": lambda at, x: _shaped("int", x[0]),
    "t_real": lambda at, x: _shaped("real", x[0]),
    "t_complex": _no_complex,
    "t_vector": lambda at, x: _shaped("vector", *x),
    "t_row": lambda at, x: _shaped("row_vector", *x),
    "t_matrix": lambda at, x: _shaped("matrix", *x),
    "t_special": lambda at, x: _shaped(str(x[0]), None, *x[1:]),
    "bounds": lambda at, x: tuple(x[1:-1]),
    "bound": lambda at, x: (str(x[0]), x[2]),
    "assign": lambda at, x: tree.Assign(at, x[0], "=" if x[1] == "<-" else str(x[1]), x[2]),
    "tilde": _tilde,
    "truncation_one": lambda at, x: (x[0], None),
    "ternary": lambda at, x: tree.Ternary(at, *x),
    "binary": lambda at, x: tree.Binary(at, str(x[1]), x[0], x[2]),
    "unary": lambda at, x: tree.Unary(at, str(x[0]), x[1]),
    "transpose": lambda at, x: tree.Unary(at, "'", x[0]),
    "index": lambda at, x: tree.Index(at, x[0], x[1]),
    "range": lambda at, x: tree.Range(at, *x),
    "whole": lambda at, x: tree.Number(at, _integer(x[0])),
    "number": lambda at, x: tree.Number(at, float(x[0].replace("_", ""))),
    "variable": lambda at, x: tree.VariableName(at, str(x[0])),
    "call": lambda at, x: tree.Call(at, str(x[0]), _entries(x[1])),
    "bar_call": lambda at, x: tree.Call(at, str(x[0]), (x[1], *_entries(x[2]))),
    "target": lambda at, x: tree.Target(at),
    "parenthesis": lambda at, x: x[0],
    "array_literal": lambda at, x: tree.Listed(at, x[0], False),
    "row_literal": lambda at, x: tree.Listed(at, x[0], True),
    "empty_row": lambda at, x: tree.Listed(at, (), True),
}
"""What a rule of the grammar makes at a position, of what the rules inside it made."""


# `#include` of files that lie in the folder of a program, or in folders of that.

DEEPEST_INCLUDE, MOST = 10, 200
"""Files that include each other, and files of one program: hand-written ones have a handful."""

_LINE = re.compile(r"[ \t]*#include[ \t]+(?:\"([^\"\n]*)\"|<([^>\n]*)>|(\S+))[ \t]*(?://[^\n]*)?")


def with_includes(text: str, name: str, folder: Path | None, largest: int) -> str:
    """The text with every line of `#include` replaced by the file that it names.

    Args:
        folder: folder of the program; None of one that is no file.
        largest: characters of everything together.

    >>> with_includes("model { }", "a.stan", None, 100)
    'model { }'
    """
    if "#include" not in text:
        return text
    return _Reader(folder, largest).expanded(text, name, 0)


class _Reader:
    def __init__(self, folder: Path | None, largest: int):
        self.folder, self.left, self.files = folder, largest, 0

    def expanded(self, text: str, name: str, depth: int) -> str:
        lines = []
        for number, line in enumerate(text.split("\n"), 1):
            match = _LINE.fullmatch(line)
            if match is None:
                lines.append(line)
                continue
            file = match[1] or match[2] or match[3] or ""
            try:
                inside, label = self.read(file), f"{name}, line {number}: {file}"
                if depth + 1 > DEEPEST_INCLUDE:
                    raise BayesreconError(f"includes are nested more than {DEEPEST_INCLUDE} deep")
            except BayesreconError as error:
                raise BayesreconError(f"{name}, line {number}, #include {file[:80]}: {error}") from None
            lines.append(self.expanded(inside, label, depth + 1))
        return "\n".join(lines)

    def read(self, file: str) -> str:
        """The text of an included file."""
        if self.folder is None:
            raise BayesreconError("#include needs a program from a file; insert the included lines instead")
        path = Path(file)
        if path.is_absolute() or not (self.folder / path).resolve().is_relative_to(self.folder.resolve()):
            raise BayesreconError("it is not in the folder of the program")
        path = self.folder / path
        if not path.is_file():
            raise BayesreconError("there is no such file in the folder of the program")
        self.files, self.left = self.files + 1, self.left - path.stat().st_size
        if self.files > MOST or self.left < 0:
            raise BayesreconError("the included files are too large")
        try:
            return path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise BayesreconError("it is not text") from None


# The grammar of the Stan language, for an LALR parser; old and new syntax.

GRAMMAR = r"""
start: block*
block: "functions" "{" fundef* "}" -> functions
     | "data" "{" statement* "}" -> data
     | "transformed" "data" "{" statement* "}" -> transformed_data
     | "parameters" "{" statement* "}" -> parameters
     | "transformed" "parameters" "{" statement* "}" -> transformed_parameters
     | "model" "{" statement* "}" -> model
     | "generated" "quantities" "{" statement* "}" -> generated

fundef: argtype NAME "(" [arg ("," arg)*] ")" funbody
funbody: "{" statement* "}" -> body
       | ";" -> forward
arg: ["data"] argtype NAME
argtype: argbase [argdims] -> old_argtype
       | "array" argdims argbase -> new_argtype
argdims: "[" COMMAS? "]"
argbase: "int" -> a_int | "real" -> a_real | "vector" -> a_vector | "row_vector" -> a_row | "matrix" -> a_matrix
       | "void" -> a_void | "complex" -> a_complex

?statement: decl | assign | tilde | simple
simple: "target" MORE_BY expr ";" -> target_plus
      | "increment_log_prob" "(" expr ")" ";" -> target_plus
      | NAME "(" [args] ")" ";" -> call_statement
      | MESSAGE "(" [texts] ")" ";" -> message
      | "if" "(" expr ")" statement "else" statement -> if_else
      | "if" "(" expr ")" statement -> if_only
      | "for" "(" NAME "in" expr ":" expr ")" statement -> for_range
      | "for" "(" NAME "in" expr ")" statement -> for_each
      | "while" "(" expr ")" statement -> while_loop
      | "{" statement* "}" -> braces
      | "profile" "(" STRING ")" "{" statement* "}" -> profiled
      | "return" expr? ";" -> returned
      | "break" ";" -> broken
      | "continue" ";" -> continued
      | ";" -> nothing
texts: (STRING | expr) ("," (STRING | expr))*

decl: type named ("," named)* ";"
named: NAME ["[" args "]"] [IS expr]
type: ["array" "[" args "]"] base
base: "int" [bounds] -> t_int
    | "real" [bounds] -> t_real
    | "complex" -> t_complex
    | "vector" [bounds] "[" expr "]" -> t_vector
    | "row_vector" [bounds] "[" expr "]" -> t_row
    | "matrix" [bounds] "[" expr "," expr "]" -> t_matrix
    | SPECIAL1 "[" expr "]" -> t_special
    | SPECIAL2 "[" expr ["," expr] "]" -> t_special
SPECIAL1.2: /(simplex|unit_vector|(positive_)?ordered|sum_to_zero_vector|cholesky_factor_corr|corr_matrix|cov_matrix)\b/
SPECIAL2.2: /(cholesky_factor_cov|sum_to_zero_matrix|column_stochastic_matrix|row_stochastic_matrix)\b/
bounds: LESS bound ("," bound)* MORE
bound: BOUND IS sum
MESSAGE.2: /(print|reject|fatal_error)\b/
BOUND.2: /(lower|upper|offset|multiplier)\b/
assign: expr (IS | MORE_BY | ASSIGN) expr ";"
ASSIGN: "<-" | "-=" | "*=" | "/=" | ".*=" | "./="
tilde: expr "~" NAME "(" [args] ")" [truncation] ";"
truncation: "T" "[" [expr] "," [expr] "]" -> truncation_two
          | "T" "[" expr "]" -> truncation_one

args: expr ("," expr)*
?expr: lor
     | lor "?" expr ":" expr -> ternary
?lor: land | lor OR land -> binary
?land: equal | land AND equal -> binary
?equal: compared | equal EQUAL compared -> binary
?compared: sum | compared COMPARE sum -> binary | compared LESS sum -> binary | compared MORE sum -> binary
?sum: term | sum PLUS term -> binary
?term: left | term TIMES left -> binary
?left: unary | left LEFT unary -> binary
?unary: power | SIGN unary -> unary | PLUS unary -> unary
?power: postfix | postfix POWER unary -> binary
?postfix: atom
        | postfix "'" -> transpose
        | postfix "[" indices "]" -> index
indices: [slice] ("," [slice])*
?slice: expr
      | [expr] ":" [expr] -> range
?atom: INT -> whole
     | REAL -> number
     | NAME -> variable
     | NAME "(" [args] ")" -> call
     | NAME "(" expr "|" [args] ")" -> bar_call
     | "target" "(" ")" -> target
     | "(" expr ")" -> parenthesis
     | "{" args "}" -> array_literal
     | "[" args "]" -> row_literal
     | "[" "]" -> empty_row

OR: "||"
AND: "&&"
EQUAL: "==" | "!="
COMPARE: "<=" | ">="
LESS: "<"
MORE: ">"
IS: "="
MORE_BY: "+="
PLUS: "+" | "-"
TIMES: "*" | "/" | ".*" | "./" | "%/%" | "%"
LEFT: "\\"
POWER: "^" | ".^"
SIGN: "!"
COMMAS: /,[\s,]*/
INT: /[0-9][0-9_]*/
REAL: /([0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)([eE][+-]?[0-9]+)?|[0-9][0-9_]*[eE][+-]?[0-9]+/
NAME: /[A-Za-z][A-Za-z0-9_]*/
STRING: /"[^"\n]*"/
%import common.WS
COMMENT: /\/\/[^\n]*|\/\*(.|\n)*?\*\/|#(?!include)[^\n]*/
%ignore WS
%ignore COMMENT
"""
