"""Parser from the text of a Stan program to its syntax tree."""

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bayesrecon.errors import BayesreconError, library
from bayesrecon.models.stan import tree

if TYPE_CHECKING:
    from lark import Lark, Token, Tree
    from lark.tree import Branch, Meta
    from lark.visitors import Transformer

LONGEST = 1_000_000
"""Characters of a program: the longest that are written by hand or by brms have a tenth of it."""

DEEPEST = 150
"""Levels of nesting, a tenth of what the interpreter's own stack allows."""


Items = list[Any]
"""What the rules inside of a rule of the grammar made: nodes, tokens, tuples and None."""

Blocks = list[tuple[str, tuple[Any, ...]]]
"""Names of blocks with their functions or statements."""


def parse(text: str, name: str = "program") -> tree.Program:
    """The tree of a program.

    Raises:
        BayesreconError: what is no Stan program, with line and column; includes, which are resolved before.
        MissingExtraError: `lark` is not installed.

    >>> [d.name for d in parse("parameters { real mu; } model { mu ~ normal(0, 1); }").parameters]
    ['mu']
    """
    lark = library("lark", "a Stan program", "stan")
    if len(text) > LONGEST:
        raise BayesreconError(f"{name}: {len(text)} characters, more than {LONGEST}; this is not a Stan program")
    _check_brackets(text, name)
    try:
        blocks = _builder().transform(_shallow(_parser().parse(text), name))
    except lark.exceptions.UnexpectedCharacters as error:
        raise BayesreconError(
            f"{name}, line {error.line}, column {error.column}: {text[error.pos_in_stream]!r} is not understood"
        ) from None
    except lark.exceptions.UnexpectedToken as error:
        problem = (
            "the program ends early" if error.token.type == "$END" else f"{str(error.token)[:40]!r} is not expected"
        )
        raise BayesreconError(f"{name}, line {error.line}, column {error.column}: {problem} here") from None
    except lark.exceptions.VisitError as error:
        if isinstance(error.orig_exc, BayesreconError):
            raise BayesreconError(f"{name}, {error.orig_exc}") from None
        raise
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


@functools.cache
def _builder() -> "Transformer[Token, Blocks]":
    """Makes nodes of what the parser read."""
    import lark

    def at(meta: "Meta") -> tree.Position:
        return (getattr(meta, "line", 1), getattr(meta, "column", 1))

    def entries(items: Items | None) -> tuple[Any, ...]:
        return tuple(items or ())

    def place(token: "Token") -> tree.Position:
        return (token.line or 1, token.column or 1)

    def integer(token: "Token") -> int:
        value = int(token.replace("_", ""))
        if value > 2**31 - 1:
            raise BayesreconError(f"line {token.line}: {token[:40]} is too large for an integer")
        return value

    def shaped(base: str, bounds: Items | None, *sizes: tree.Expression | None) -> tree.Type:
        return tree.Type(base, (), tuple(s for s in sizes if s is not None), tuple(bounds or ()))

    @lark.v_args(meta=True)
    class Builder(lark.visitors.Transformer_NonRecursive[lark.Token, Blocks]):
        def start(self, meta: "Meta", blocks: Items):
            return blocks

        def body(self, meta: "Meta", items: Items):
            return entries(items)

        def forward(self, meta: "Meta", items: Items):
            return None

        def old_argtype(self, meta: "Meta", items: Items):
            return items[0], items[1] or 0

        def new_argtype(self, meta: "Meta", items: Items):
            return items[1], items[0]

        def argdims(self, meta: "Meta", items: Items):
            return 1 + (items[0].count(",") if items and items[0] else 0)

        def arg(self, meta: "Meta", items: Items):
            (base, depth), name = items[-2:]
            return tree.Argument(str(name), base, depth)

        def fundef(self, meta: "Meta", items: Items):
            (base, depth), name, *args, body = items
            return tree.Function(place(name), str(name), tuple(a for a in args if a), base, depth, body)

        def target_plus(self, meta: "Meta", items: Items):
            return tree.Increment(at(meta), items[-1])

        def call_statement(self, meta: "Meta", items: Items):
            return tree.CallStatement(at(meta), tree.Call(place(items[0]), str(items[0]), entries(items[1])))

        def message(self, meta: "Meta", items: Items):
            return tree.Message(at(meta), items[0] != "print")

        def if_else(self, meta: "Meta", items: Items):
            return tree.If(at(meta), *items)

        def if_only(self, meta: "Meta", items: Items):
            test, then = items
            return tree.If(at(meta), test, then, None)

        def for_range(self, meta: "Meta", items: Items):
            return tree.For(at(meta), str(items[0]), *items[1:])

        def for_each(self, meta: "Meta", items: Items):
            return tree.For(at(meta), str(items[0]), items[1], None, items[2])

        def while_loop(self, meta: "Meta", items: Items):
            return tree.While(at(meta), *items)

        def braces(self, meta: "Meta", items: Items):
            return tree.Block(at(meta), entries(items))

        def profiled(self, meta: "Meta", items: Items):
            return tree.Block(at(meta), entries(items[1:]))

        def returned(self, meta: "Meta", items: Items):
            return tree.Return(at(meta), items[0] if items else None)

        def broken(self, meta: "Meta", items: Items):
            return tree.Jump(at(meta), True)

        def continued(self, meta: "Meta", items: Items):
            return tree.Jump(at(meta), False)

        def nothing(self, meta: "Meta", items: Items):
            return tree.Block(at(meta), ())

        def decl(self, meta: "Meta", items: Items):
            kind, *named = items
            made = [tree.Declare(p, n, kind._replace(dims=kind.dims + d), v) for p, n, d, v in named]
            return made[0] if len(made) == 1 else tuple(made)

        def named(self, meta: "Meta", items: Items):
            name, dims, _, value = items
            return place(name), str(name), entries(dims), value

        def type(self, meta: "Meta", items: Items):
            dims, base = items
            return base._replace(dims=entries(dims))

        def t_int(self, meta: "Meta", items: Items):
            return shaped("int", items[0])

        def t_real(self, meta: "Meta", items: Items):
            return shaped("real", items[0])

        def t_complex(self, meta: "Meta", items: Items):
            raise BayesreconError(f"line {meta.line}: complex numbers are not supported")

        def t_vector(self, meta: "Meta", items: Items):
            return shaped("vector", *items)

        def t_row(self, meta: "Meta", items: Items):
            return shaped("row_vector", *items)

        def t_matrix(self, meta: "Meta", items: Items):
            return shaped("matrix", *items)

        def t_special(self, meta: "Meta", items: Items):
            return shaped(str(items[0]), None, *items[1:])

        def bounds(self, meta: "Meta", items: Items):
            return entries(items[1:-1])

        def bound(self, meta: "Meta", items: Items):
            return str(items[0]), items[2]

        def assign(self, meta: "Meta", items: Items):
            return tree.Assign(at(meta), items[0], "=" if items[1] == "<-" else str(items[1]), items[2])

        def tilde(self, meta: "Meta", items: Items):
            variate, name, args, cut = items
            low, high = cut or (None, None)
            return tree.Tilde(at(meta), variate, str(name), entries(args), low, high, cut is not None)

        def truncation_two(self, meta: "Meta", items: Items):
            return tuple(items)

        def truncation_one(self, meta: "Meta", items: Items):
            return items[0], None

        def args(self, meta: "Meta", items: Items):
            return entries(items)

        def indices(self, meta: "Meta", items: Items):
            return entries(items)

        def ternary(self, meta: "Meta", items: Items):
            return tree.Ternary(at(meta), *items)

        def binary(self, meta: "Meta", items: Items):
            return tree.Binary(at(meta), str(items[1]), items[0], items[2])

        def unary(self, meta: "Meta", items: Items):
            return tree.Unary(at(meta), str(items[0]), items[1])

        def transpose(self, meta: "Meta", items: Items):
            return tree.Unary(at(meta), "'", items[0])

        def index(self, meta: "Meta", items: Items):
            return tree.Index(at(meta), items[0], items[1])

        def range(self, meta: "Meta", items: Items):
            return tree.Range(at(meta), *items)

        def whole(self, meta: "Meta", items: Items):
            return tree.Number(at(meta), integer(items[0]))

        def number(self, meta: "Meta", items: Items):
            return tree.Number(at(meta), float(items[0].replace("_", "")))

        def variable(self, meta: "Meta", items: Items):
            return tree.VariableName(at(meta), str(items[0]))

        def call(self, meta: "Meta", items: Items):
            return tree.Call(at(meta), str(items[0]), entries(items[1]))

        def bar_call(self, meta: "Meta", items: Items):
            return tree.Call(at(meta), str(items[0]), (items[1], *entries(items[2])))

        def target(self, meta: "Meta", items: Items):
            return tree.Target(at(meta))

        def parenthesis(self, meta: "Meta", items: Items):
            return items[0]

        def array_literal(self, meta: "Meta", items: Items):
            return tree.Listed(at(meta), items[0], False)

        def row_literal(self, meta: "Meta", items: Items):
            return tree.Listed(at(meta), items[0], True)

        def empty_row(self, meta: "Meta", items: Items):
            return tree.Listed(at(meta), (), True)

    def block(name: str) -> Callable[..., object]:
        def make(self: object, meta: "Meta", items: Items):
            return name, tuple(
                statement for item in items for statement in (item if isinstance(item, tuple) else (item,))
            )

        return make

    def constant(name: str) -> Callable[..., str]:
        return lambda self, meta, items: name

    for name in ("functions", "data", "transformed_data", "parameters", "transformed_parameters", "model", "generated"):
        setattr(Builder, name, lark.v_args(meta=True)(block(name)))
    for rule, base in (("int", "int"), ("real", "real"), ("vector", "vector"), ("row", "row_vector")):
        setattr(Builder, f"a_{rule}", lark.v_args(meta=True)(constant(base)))
    for rule in ("matrix", "void", "complex"):
        setattr(Builder, f"a_{rule}", lark.v_args(meta=True)(constant(rule)))
    return Builder()


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
