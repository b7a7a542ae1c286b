"""A store of constraints never excludes sizes that fulfil its conditions, and derives what a reader would."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu_lsp.engine.symbolic.bounds import Bounds
from gpuemu_lsp.engine.symbolic.conditions import COMPARISONS, Condition, all_of, any_of, compared, negated
from gpuemu_lsp.engine.symbolic.constraints import Constraints
from gpuemu_lsp.engine.symbolic.size import (
    ONE,
    ZERO,
    Size,
    ceil_div,
    divide,
    evaluate,
    extreme,
    floor_divide,
    modulo,
    next_power_of_two,
    number,
    symbol,
)

NAMES = ("a", "b", "n")
A, B, N = (symbol(name, 1) for name in NAMES)
U = symbol("u")
ENVIRONMENTS = st.fixed_dictionaries({**{name: st.integers(1, 70) for name in NAMES}, "u": st.integers(-20, 40)})
LEAVES = st.one_of(st.sampled_from((A, B, N, U)), st.integers(-3, 70).map(number))
DIVISORS = st.sampled_from((number(2), number(4), number(32), A))
SIZES = st.one_of(
    LEAVES,
    st.tuples(LEAVES, LEAVES).map(lambda pair: pair[0] + pair[1]),
    st.tuples(LEAVES, LEAVES).map(lambda pair: pair[0] - pair[1]),
    st.tuples(LEAVES, LEAVES).map(lambda pair: pair[0] * pair[1]),
    st.tuples(LEAVES, LEAVES).map(lambda pair: extreme("min", *pair)),
    st.tuples(LEAVES, LEAVES).map(lambda pair: extreme("max", *pair)),
    st.tuples(LEAVES, LEAVES, DIVISORS).map(lambda three: floor_divide(three[0] + three[1], three[2])),
    st.tuples(LEAVES, LEAVES, DIVISORS).map(lambda three: divide(three[0] - three[1], three[2])),
    st.tuples(LEAVES, DIVISORS).map(lambda pair: modulo(*pair)),
    st.tuples(LEAVES, DIVISORS).map(lambda pair: ceil_div(number(3) * pair[0], pair[1])),
    LEAVES.map(next_power_of_two),
)
COMPARED = st.tuples(st.sampled_from(sorted(COMPARISONS)), SIZES, SIZES).map(lambda three: Condition(None, *three))
CONDITIONS = st.recursive(
    COMPARED,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(all_of), st.lists(inner, min_size=2, max_size=3).map(any_of)
    ),
    max_leaves=3,
)


def is_true(condition: Condition, env: dict[str, int]) -> bool:
    if condition.value is not None:
        return condition.value
    if condition.operator in ("&&", "||"):
        return (all if condition.operator == "&&" else any)(is_true(part, env) for part in condition.parts)
    left, right = condition.sides
    return COMPARISONS[condition.operator](evaluate(left, env), evaluate(right, env))


@settings(max_examples=300, deadline=None)
@given(ENVIRONMENTS, st.lists(CONDITIONS, min_size=1, max_size=5), SIZES, CONDITIONS)
def test_sizes_that_fulfil_all_conditions_are_never_excluded(env, conditions, size, query):
    store = Constraints()
    held = [one if is_true(one, env) else negated(one) for one in conditions]
    for condition in held:
        store = store.assume(condition)
        assert store is not None, condition
        for name, value in store.equal.items():
            assert evaluate(value, env) == env[name]
        assert all(env[name] in bounds for name, bounds in store.ranges.items())
        assert all(env[name] % divisor == 0 for name, divisor in store.divisors.items())
        assert all(env[name] in values for name, values in store.choices.items())
        assert all(is_true(other, env) for other in store.others)
    assert evaluate(size, env) in store.bounds(size)
    divisor = store.divisor(size)
    assert evaluate(size, env) == 0 if divisor == 0 else evaluate(size, env) % divisor == 0
    assert store.holds(query) in (None, is_true(query, env))
    known = compared("<", size, query.left or ZERO)
    assert known.value in (None, evaluate(size, env) < evaluate(query.left or ZERO, env))


def given_that(*conditions: tuple[Size, str, Size | int]) -> Constraints | None:
    store: Constraints | None = Constraints()
    for left, operator, right in conditions:
        side = number(right) if isinstance(right, int) else right
        store = None if store is None else store.assume(Condition(None, operator, left, side))
    return store


def test_comparisons_with_numbers_are_bounds():
    store = given_that((N, "<=", 1024), (ONE + N, ">", 5), (number(4) * A, "<", 30))
    assert (store.ranges["n"], store.ranges["a"]) == (Bounds(5, 1024), Bounds(high=7))
    assert not store.others
    assert given_that((N, "<", 5), (N, ">", 4)) is None
    assert given_that((N, "<", 1)) is None and given_that((U, "<", 1)) is not None


def test_a_quotient_that_is_a_number_bounds_its_dividend():
    store = given_that((ceil_div(N, number(32)) - ONE, "==", 2))
    assert store.ranges["n"] == Bounds(65, 96) and not store.others
    assert given_that((divide(U, number(4)), "==", 0)).bounds(U) == Bounds(-3, 3)


def test_equal_sizes_are_replaced_with_all_that_is_known_of_them():
    store = given_that((N, "<=", 64), (modulo(N, number(8)), "==", 0), (N, "==", A))
    assert store.equal == {"n": A} and store.ranges["a"].high == 64 and store.divisors["a"] == 8
    store = store.assume(Condition(None, "==", A * B, A * number(3)))
    assert store.equal["b"] == number(3)
    assert store.assume(Condition(None, "==", N, number(72))) is None
    assert store.assume(Condition(None, "==", N, number(12))) is None
    assert store.assume(Condition(None, "==", N, number(16))).equal["a"] == number(16)


def test_multiples_are_divisors_of_the_symbol():
    store = given_that((modulo(number(8) * N, number(128)), "==", 0), (modulo(N, number(6)), "==", 0))
    assert store.divisors == {"n": 48} and not store.others
    assert store.divisor(number(2) * N * A) == 96
    assert store.holds(Condition(None, "==", modulo(N, number(4)), ZERO)) is True
    assert store.holds(Condition(None, "==", N, number(100))) is False
    assert given_that((number(2) * N + ONE, "==", number(4) * A)) is None


def test_several_equalities_of_one_size_are_its_choices():
    choices = any_of(Condition(None, "==", N, number(value)) for value in (32, 64, 128))
    store = Constraints().assume(choices)
    assert store.values("n") == {32, 64, 128} and store.bounds(N) == Bounds(32, 128)
    store = store.assume(Condition(None, "!=", N, number(64)))
    assert store.values("n") == {32, 128}
    assert store.assume(Condition(None, "<", N, number(100))).equal["n"] == number(32)
    assert store.assume(Condition(None, "==", N, number(64))) is None


def test_a_disjunction_of_which_one_side_is_left_holds():
    either = any_of((Condition(None, "<", N, number(4)), Condition(None, "==", A, B)))
    assert given_that((N, ">", 10)).assume(either).equal == {"a": B}
    assert given_that((N, ">", 10), (A, ">", B)).assume(either) is None


def test_comparisons_of_several_sizes_are_kept_and_contradicted():
    store = given_that((A, "<", B))
    assert store.others and store.bounds(B - A).low == 1
    assert store.assume(Condition(None, ">=", A, B)) is None
    assert store.holds(Condition(None, "!=", A, B)) is True
    assert store.assume(Condition(None, "==", A, B + number(2))) is None


def test_what_is_not_understood_says_nothing():
    store = given_that((N, "<", 5))
    assert store.assume(Condition()) == store
    assert store.holds(Condition()) is None
    assert store.assume(Condition(False)) is None


def test_what_is_below_the_smallest_of_several_is_below_each():
    store = given_that((N, "<=", extreme("min", A, number(64))))
    assert store.ranges["n"].high == 64 and store.bounds(A - N).low == 0
    store = given_that((extreme("max", A, B), "<", N))
    assert store.bounds(N - A).low == store.bounds(N - B).low == 1


def test_the_next_power_of_two_is_not_less():
    assert given_that((N, "<=", extreme("min", next_power_of_two(N), number(64)))).others == ()
    assert given_that((N, ">", next_power_of_two(N))) is None
