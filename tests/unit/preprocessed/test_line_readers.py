"""Which user text may use its own line number through declarations of system headers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nvccache.preprocessed import line_readers
from nvccache.preprocessed.declaration_heads import UnknownError

LOCATION = """
namespace std __attribute__((visibility("default"))) { inline namespace v1 {
# 40 "/usr/include/source_location" 3
class source_location {
  int line_ = 0;
  explicit constexpr source_location(int line) noexcept : line_(line) {}
 public:
  [[nodiscard]] static constexpr source_location current(int line = __builtin_LINE()) noexcept
  { return source_location{line}; }
  constexpr int line() const noexcept { return line_; }
};
} }
"""
LOC = "std::source_location loc = std::source_location::current()"


def may_request(of_system: str, of_user: str) -> bool:
    marked = f'\n# 1 "/usr/include/h.h" 1 3\n{LOCATION}\n{of_system}\n'
    return bool(dependent_files([marked], user=of_user))


def dependent_files(of_system: Sequence[str], **of_files: str) -> set[str]:
    """The files that use line numbers: all of them where that is unknown."""
    texts = {name.encode(): text.encode() for name, text in of_files.items()}
    try:
        found = line_readers.position_dependent_files([text.encode() for text in of_system], texts)
    except UnknownError:
        return set(of_files)
    return {name.decode() for name in found}


# A header's declaration, text that uses it, and text that does not.
DECLARED = [
    ("", "std::source_location::current()", "int line();"),
    ("", "__builtin_LINE()", "__LINE__ current(), line()"),
    (f"int where({LOC});", "where()", "anywhere(); where_else(); loc"),
    (f"template <class T, class = void> int where(T, {LOC}) {{ return 0; }}", "where(1)", "T"),
    (f"namespace a {{ namespace b::c {{ int where({LOC}); }} }}", "a::b::c::where()", "a::b::c::f()"),
    (f"__attribute__((x(1))) inline int *where(int a, {LOC}) noexcept;", "where(1)", "x(1)"),
    (f"int first({LOC}); int second(int i = first()); int third(int i = second());", "third()", "fourth()"),
    (f"class error : public runtime {{ public: error(int, {LOC}) {{}} }};", "throw error(1)", "runtime()"),
    (f"struct error {{ error({LOC}); }}; void take(error);", "take({})", "give()"),
    (f"struct error {{ error({LOC}); }}; class derived final : error {{}};", "derived d;", "error_code d;"),
    (f"struct error {{ error({LOC}); }}; using fault = error;", "fault{}", "using_fault"),
    (f"struct error {{ error({LOC}); }}; class error; struct holder {{ error e; }};", "holder h;", "h.e"),
    (f"struct outer {{ struct error {{ error({LOC}); }}; }};", "outer::x y;", "y"),
    (f"struct error {{ int f({LOC}); }}; error &make();", "make().f()", "f()"),
    (f"struct error {{ int f({LOC}); }}; namespace n {{ using ::error; }}", "n::error().f()", "n::f()"),
    ("struct member { int line = __builtin_LINE(); };", "member m;", "line"),
    ("struct member { int line{__builtin_LINE()}; };", "member m;", None),
    (f"struct box {{ int f(); }}; int box::f({LOC}) {{ return 1; }}", "box().f()", "g()"),
    (f"struct K {{ K({LOC}); }}; extern K (object);", "object", "reason_against_record"),
    (f"int where({LOC}); int body() {{ return where(); }}", "where()", "body()"),
    (f"int where({LOC}); struct L {{ public: L(int a) noexcept(1) : x(a) {{ where(); }} }};",
     "where()", "L(1)"),
    (f"int where({LOC}); int one(int a, place p = {{1}}) {{ return 1; }} int body() {{ where(); }}",
     "where()", "body() + one(1)"),
    ("struct E { E(int x = {__builtin_LINE()}) {} };", "E()", "F()"),
    ("struct E { E(int, place s = place{__builtin_LINE()}) : x{1}, y{2} {} int x, y; };", "E(1)", "F(1)"),
    ("struct E { int w(int l = int{__builtin_LINE()}, int m = {}) const; };", "E().w()", "w()"),
    (f"int where({LOC}) noexcept(sizeof(int) == 4);", "where()", "f()"),
    (f"box::box({LOC}) : a(1), b{{2}} {{ }}", "box()", "a() + b()"),
    (f"int where({LOC}); list<int(int)> body(const int &a) const {{ where(); }}", "where()", "body(1)"),
    (f"int where({LOC}); struct list {{ bool operator()(int a, int) {{ where(); }} }};",
     "where()", "list()(1)"),
    (f"int where({LOC}); template <class T> int body(T t) {{ if (t) {{ where(); }} return 1; }}", "where()",
     "body(1)"),
    (f"int where({LOC}); auto body() -> decltype(f)* {{ return where(); }}", "where()", "body()"),
    (f"int where({LOC}); struct list {{ int f(int a = 1) const {{ return where(); }} }};", "where()",
     "list().f()"),
    (f"int where({LOC}); const char *s = \"{{;\"; char c = '{{'; int n = 1'000; int b() {{ where(); }}",
     "where()", "b()"),
]  # fmt: skip


@pytest.mark.parametrize(("of_system", "using", "other"), DECLARED)
def test_a_declaration_is_used_by_its_name(of_system: str, using: str, other: str | None) -> None:
    assert may_request(of_system, f"int mine() {{ {using}; }}")
    if other is not None:
        assert not may_request(of_system, f"int mine() {{ {other}; }}")


def test_strings_and_names_are_not_distinguished() -> None:
    assert may_request(f"int where({LOC});", '"where"')


# The names by which these are used cannot be known.
UNCLEAR = [
    f"struct K {{ K({LOC}); }}; auto make() {{ return K(); }}",
    f"struct K {{ K({LOC}); }}; auto make() -> decltype(auto) {{ return K(); }}",
    f"struct K {{ K({LOC}); }}; auto make() -> auto {{ return K(); }}",
    f"struct K {{ K({LOC}); }}; auto make(decltype(K()) *a, int b = a->b()) {{ return K(); }}",
    f"struct K {{ K({LOC}); }}; auto make = [] {{ return K(); }};",
    f"struct K {{ K({LOC}); }}; wrap make = [](int) {{ return K(); }};",
    f"struct K {{ int f({LOC}); }} object;",
    f"typedef struct {{ int f({LOC}); }} K;",
    f"struct K {{ K({LOC}); }}; K operator+(int, K);",
    f"struct K {{ friend int f(K, {LOC}) {{ return 1; }} }};",
    "struct K { int line = f(1) + int{std::source_location::current().line()}; };",
    "int line = f(1) + int{__builtin_LINE()};",
    f"template <> struct trait<int> {{ int f({LOC}); }};",
    f"int *begin(int, {LOC});",
    f"int begin(int, {LOC});",
    f"decltype(f(1)) where({LOC});",
    f"template <class T> requires (sizeof(T) > 1) int where({LOC});",
    f"template <int N = (1 > 2)> int where({LOC});",
    "enum { line = __builtin_LINE() };",
    "template <class T> constexpr int line = __builtin_LINE();",
    f"struct K {{ K({LOC}); }}; template class box<K>;",
    f"}} int where({LOC}); {{",
    f"int f() {{ int where({LOC});",
    f"namespace a {{ int where({LOC});",
    # A brace inside of parentheses opens no body.
    "inline int where(place l = {__builtin_LINE()}) { return l.at; }",
    "inline int where(int l = int{__builtin_LINE()}) { return l; }",
    "inline int where(const place &l = place{{__builtin_LINE()}}) { return l.at; }",
    "inline int where(char c = ')', place l = {__builtin_LINE()}) { return l.at; }",
    'inline int where(text t = R"x())x", place l = {__builtin_LINE()}) { return l.at; }',
    "inline int where(int l = [] { return 1; }(), int m = __builtin_LINE()) { return l; }",
    "inline int where(int l = [](int m = __builtin_LINE()) { return m; }()) { return l; }",
    "inline int where(int (&a)[sizeof(place{1})], int l = __builtin_LINE()) { return l; }",
    "struct E { friend int w(E e, int l = int{__builtin_LINE()}) { return l; } };",
    "template <int N = place{__builtin_LINE()}.at> int where() { return N; }",
    "template <class T = decltype(place{__builtin_LINE()})> int where() { return 1; }",
    # Blocks that are initializers, after parentheses.
    "struct E { int (at){__builtin_LINE()}; };",
    "struct E { static_int (*at){__builtin_LINE()}; };",
    "struct E { function<int(int, int)> at{__builtin_LINE()}; };",
    "struct E { decltype(1 + 1) at{__builtin_LINE()}; };",
    "struct E { int at : width(1 + 1) {__builtin_LINE()}; };",
    "struct E { int (at) : 3 {__builtin_LINE()}; };",
    # More than one declarator, or one whose name is not before the first parenthesis.
    "inline int &ref(int x = __builtin_LINE()), *ptr(int y = __builtin_LINE());",
    "int one(1), two(int y = __builtin_LINE());",
    "int (*where(int x = __builtin_LINE()))(int);",
    "char (&where(int x = __builtin_LINE()))[3];",
    "int (where)(int x = __builtin_LINE());",
    "function<int(int)> where(int x = __builtin_LINE());",
    f"struct K {{ K({LOC}); }}; extern K a, b(1);",
    f"struct K {{ K({LOC}); }}; extern K (*a);",
    f"struct K {{ K({LOC}); }}; box(int) -> K;",
    # Comments are kept by -C, and braces have other spellings.
    f"int where({LOC}); /* }} */ int other() {{ return 1; }} /* {{ */",
    f"int where({LOC}) <% return 1; %>",
]


@pytest.mark.parametrize("of_system", UNCLEAR)
def test_what_is_not_understood_may_be_used_by_any_text(of_system: str) -> None:
    assert may_request(of_system, "int f();")


@pytest.mark.parametrize("is_balanced", [True, False])
def test_a_header_is_read_without_those_that_it_includes(is_balanced: bool) -> None:
    """And a header's name is not that of a declaration."""
    where = '\n# 1 "/usr/include/where.h" 1 3\nnamespace m {\n# 1 "/usr/include/source_location.h" 1 3\n'
    where += LOCATION if is_balanced else f"}} {LOCATION} namespace m {{"
    where += f'# 3 "/usr/include/where.h" 2 3\nint where({LOC});\n}}\n'
    assert bool(dependent_files([where], user="int mine();")) != is_balanced
    assert dependent_files([where], user="int mine() { where(); }")


def test_names_are_followed_from_one_stretch_to_the_next() -> None:
    one = f"\n{LOCATION} int first({LOC});\n"
    other = "\nint second(int line = first());\n"
    assert dependent_files([other, one], user="second()")
    assert not dependent_files([other, one], user="third()")


# Declarations with a member function of a class that has an operator: only calls can be followed.
CALLED = [
    ("", "one::where()", "int where; one().where = &one::where;"),
    ("", "(one::where) ()", "one w"),
    ("", "one().where<1>()", "where_else()"),
    ("", "one::where\n# 7 \"a.cu\"\n()", "where; ()"),
    ("struct outer { int next(int line = one::where()); };", "outer().next()", "outer o; int next;"),
    ("struct outer { struct K { K(int line = one::where()); }; };", "outer::x y;", "x y;"),
    ("struct outer { struct K { int line = one::where(); }; };", "outer::x y;", "x y;"),
    ("struct outer { int kept = one::where(); };", "outer o;", "o.kept"),
    ("struct outer { outer(int line = one::where()); };", "outer o;", "where"),
    ("struct outer { int operator()(int line = one::where()); };", "outer o;", "where"),
    ("struct outer { outer(int a, int) noexcept(true) : kept(one::where()), other{} {} };",
     "one::where()", "outer o(1, 2);"),
    ("struct outer { template <class T> requires any<T> outer(T a) : kept(one::where()) {} };",
     "one::where()", "outer o(1);"),
    ("struct outer { int next(int a, int) { return one::where(); } };",
     "one::where()", "outer().next(1, 2);"),
]  # fmt: skip


@pytest.mark.parametrize(("of_system", "using", "other"), CALLED)
def test_a_member_function_is_used_by_a_call(of_system: str, using: str, other: str) -> None:
    one = "struct one { static int where(int line = __builtin_LINE()); };\nint operator+(two, one *);\n"
    for text, is_dependent in ((using, True), (other, False)):
        assert bool(dependent_files([one + of_system], user=f"int mine() {{ {text}; }}")) == is_dependent
