"""The grammar of the Stan language, for an LALR parser; old and new syntax."""

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
