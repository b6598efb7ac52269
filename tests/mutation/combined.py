# SPDX-License-Identifier: BSD-3-Clause
"""Several mutants of one source in one text, of which an environment variable picks one when the program starts: the same
one in all sources of the program.

To read headers and to compile what a mutant has left as it was is nearly all of the work on it. What mutants change is
as a rule the body of a function. So a function that has mutants gets the body of each beside its own, and is compiled
once for all of them:

    { if (weir_mutant == 1) { …the first one's… } else if (weir_mutant == 2) { …the second one's… } else { …its own… } }

Nobody takes C++ apart here. Where braces lie is enough to find a body, and what is in doubt is left alone: what cannot
be combined is compiled by itself.
"""

import re
import typing

VARIABLE = "WEIR_MUTANT"

# Declared rather than included: kernels are included where other instructions than the usual ones are allowed. Once in what is
# compiled, however many of its sources have mutants.
CHOICE = f"""#ifndef WEIR_MUTANT
#define WEIR_MUTANT
extern "C" char* getenv(const char*) noexcept;
extern "C" int atoi(const char*) noexcept;
inline const int weir_mutant = [] {{
  const char* const chosen = getenv("{VARIABLE}");
  return chosen == nullptr ? 0 : atoi(chosen);
}}();
#endif
"""

# Comments, raw strings, strings and characters; but not the apostrophes within numbers.
NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^()\s]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'', re.DOTALL
)
HOLDS_FUNCTIONS = re.compile(r"\b(?:namespace|class|struct|union|extern)\b")
# May be asked for its value when nobody has picked a mutant yet.
IS_CONSTANT = re.compile(r"\b(?:constexpr|consteval|constinit|concept|enum)\b")


class Body(typing.NamedTuple):
    """Of a function: text[begin:end] is what stands between its braces."""

    begin: int
    end: int


def bodies(text):
    """Those of functions which do not lie in another one's, in their order."""
    code = NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    found, open_blocks = [], []
    closed = 0  # of the open blocks: bodies, and all others that hold no functions
    declared = 0  # where what may be a function's head begins
    is_value = False  # such braces have no space before them, as the style of this project's sources has it
    for mark in re.finditer(r"[{};]|^[ \t]*#[^\n]*", code, re.MULTILINE):
        if mark[0] == "{":
            is_value = code[mark.start() - 1 : mark.start()] not in ("", " ", "\n")
            head = code[declared : mark.start()]
            is_body = closed == 0 and not is_value and is_head_of_function(head)
            is_closed = is_body or not holds_functions(head)
            open_blocks.append((mark.end(), is_value, is_body, is_closed))
            closed += is_closed
        elif mark[0] == "}":
            begin, is_value, is_body, is_closed = open_blocks.pop()
            if is_body:
                found.append(Body(begin, mark.start()))
            closed -= is_closed
        # A constructor's head may have values in it.
        if mark[0] not in "{}" or not is_value:
            declared = mark.end()
    return found


def holds_functions(head):
    return HOLDS_FUNCTIONS.search(head) is not None and not IS_CONSTANT.search(head)


def is_head_of_function(head):
    is_other = HOLDS_FUNCTIONS.search(head) or IS_CONSTANT.search(head)
    return "(" in head and not head.rstrip().endswith(("=", ",", "(")) and not is_other


def change(text, mutant):
    """What a mutant changes: where it begins and ends, and what stands there then. @pre it applies"""
    old, new = mutant["old"], mutant["new"]
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    same_behind = 0
    while same_behind < min(len(old), len(new)) - same and old[-1 - same_behind] == new[-1 - same_behind]:
        same_behind += 1
    begin = text.index(mutant["old"])
    return begin + same, begin + len(old) - same_behind, new[same : len(new) - same_behind]


def body_of(text, all_bodies, mutant):
    """The body that has all that a mutant changes; None: there is none."""
    begin, end, _ = change(text, mutant)
    return next((body for body in all_bodies if body.begin <= begin and end <= body.end), None)


def can_be_combined(text, all_bodies, mutant):
    return body_of(text, all_bodies, mutant) is not None


def combine(text, numbered):
    """The text with all these mutants, each with the number that picks it; without one all is as it was.
    @pre each can be combined"""
    all_bodies = bodies(text)
    variants = {}
    for number, mutant in numbered:
        body = body_of(text, all_bodies, mutant)
        begin, end, new = change(text, mutant)
        variant = text[body.begin : begin] + new + text[end : body.end]
        variants.setdefault(body, []).append(f"if (weir_mutant == {number}) {{\n{variant}\n}} else ")
    parts, at = [CHOICE], 0
    for body in sorted(variants):
        parts += [text[at : body.begin], *variants[body], "{", text[body.begin : body.end], "\n}"]
        at = body.end
    return "".join([*parts, text[at:]])
