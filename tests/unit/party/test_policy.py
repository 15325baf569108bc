from dataclasses import replace
from fractions import Fraction

import pytest
from ledgers import cost_of
from pydantic import ValidationError

from dp.cost.accounting import Adjacency
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent
from ledger.spending import Spending, cover_of
from party.policy import Answer, Policy, Request, Rules


def coming_to(epsilon):
    """How an analyst whose only job has this epsilon stands to a limit."""
    cost = cost_of(DiscreteLaplaceDpEvent(1000, 1000 / Fraction(epsilon), Adjacency.REPLACE_ONE))
    return lambda most: cover_of(Spending(cost.curve, 1, 1, cost, 1), most, 1e-6)


REQUEST = Request(
    analyst="ada",
    analysis="pca",
    table="visits",
    columns=("age", "stay"),
    n_compute_parties=3,
    colluding=1,
    receivers=("ada", "coordinator"),
    epsilon=1.0,
    analyst_cover=coming_to(1.4),
)
BREAKS = [
    ({"analyses": ["pca"]}, {"analysis": "mining"}, "analysis 'mining' is not among 'pca'"),
    ({"analysts": ["ada"]}, {"analyst": "eve"}, "analyst 'eve' is not among"),
    ({"columns": {"visits": ["age", "stay"]}}, {"columns": ("age", "name")}, "column 'name' of table 'visits'"),
    ({"columns": {"visits": ["age", "stay"]}}, {"table": "stays"}, "table 'stays' is not among"),
    ({"max_epsilon_per_job": 1.0}, {"epsilon": 1.01}, "epsilon 1.01 of the job is above 1 "),
    ({"max_epsilon_per_job": 1.0}, {"epsilon": float("nan")}, "epsilon nan of the job"),
    (
        {"max_epsilon_per_analyst": 1.5},
        {"analyst_cover": coming_to(1.6)},
        "all jobs of analyst 'ada' would come to epsilon 1.6 of 1.5",
    ),
    ({"min_compute_parties": 3}, {"n_compute_parties": 2}, "2 compute parties are fewer than 3"),
    ({"withstand_coalition": 1}, {"colluding": 0}, "must withstand 1 colluding parties, not 0"),
    ({"receivers": ["ada", "coordinator"]}, {"receivers": ("ada", "rival")}, "'rival' may not get results"),
    ({"helpers": ["north"]}, {"helpers": ("north", "south")}, "'south' may not compute without bringing a table"),
    ({"helpers": []}, {"helpers": ("north",)}, "'north' may not compute without bringing a table (helpers)"),
    (
        {"intermediate_products": False},
        {"has_intermediate_products": lambda: True},
        "a job that computes further with products under shares",
    ),
    (
        {"matching": ["secret"]},
        {"matching": "revealed"},
        "revealed: each owner learns which of its rows all owners have",
    ),
    ({"matching": []}, {"matching": "secret"}, "matching of rows, secret"),
    ({"programs": ["a" * 64]}, {"program": "b" * 64}, f"program {'b' * 64} is not among those that may run"),
    ({"programs": []}, {"program": "b" * 64}, "is not among those that may run (programs)"),
]


def test_programs_of_analysts_are_admitted_by_epsilon_or_by_digest_or_never():
    of_a_program = replace(REQUEST, program="a" * 64)

    def decided(request, automatic=None, limits=None):
        rules = {"max_epsilon_per_job": 1.0, **(automatic or {})}
        return Policy.model_validate({"automatic": rules, "limits": limits or {}}).decide(request)

    assert decided(of_a_program).answer is Answer.ACCEPT
    assert decided(replace(of_a_program, epsilon=1.5)).answer is Answer.ASK
    assert decided(of_a_program, {"programs": ["a" * 64]}).answer is Answer.ACCEPT
    asked = decided(replace(REQUEST, program="b" * 64), {"programs": ["a" * 64]})
    assert asked.answer is Answer.ASK
    assert asked.objections == (f"program {'b' * 64} is not among those that may run (programs)",)
    assert decided(of_a_program, {"programs": []}, {"programs": []}).answer is Answer.REFUSE
    assert decided(REQUEST, {"programs": []}, {"programs": []}).answer is Answer.ACCEPT
    with pytest.raises(ValidationError, match="outside limits"):
        decided(of_a_program, {"programs": ["a" * 64]}, {"programs": ["b" * 64]})


@pytest.mark.parametrize(("rules", "changes", "words"), BREAKS)
def test_each_rule_admits_what_meets_it_and_says_what_breaks_it(rules, changes, words):
    assert Rules.model_validate(rules).objections(REQUEST) == []
    (objection,) = Rules.model_validate(rules).objections(replace(REQUEST, **changes))
    assert words in objection


def test_an_owner_can_demand_that_jobs_hold_against_members_that_deviate():
    demanding = Rules(security="malicious")
    (objection,) = demanding.objections(REQUEST)
    assert objection == 'a job must hold against members that deviate: security = "malicious" (security)'
    assert demanding.objections(replace(REQUEST, security="malicious")) == []
    for rules in (Rules(), Rules(security="semi-honest")):
        assert [rules.objections(replace(REQUEST, security=one)) for one in ("semi-honest", "malicious")] == [[], []]
    policy = Policy.model_validate({"automatic": {"max_epsilon_per_job": 2.0}, "limits": {"security": "malicious"}})
    assert policy.decide(REQUEST).answer is Answer.REFUSE


@pytest.mark.parametrize("rules", [{}, {"exact_tables": ["stays"]}, {"max_epsilon_per_job": 100.0}])
def test_an_exact_result_is_refused_unless_its_table_is_named(rules):
    exact = replace(REQUEST, is_exact=True, epsilon=None, analyst_cover=None)
    (objection,) = Rules.model_validate(rules).objections(exact)
    assert objection == "an exact result of table 'visits', which has no privacy guarantee, is not allowed"
    assert Rules.model_validate({**rules, "exact_tables": ["visits"]}).objections(exact) == []


def test_an_exact_result_is_above_any_limit_of_epsilon_where_the_party_only_computes():
    exact = replace(REQUEST, table="", columns=(), is_exact=True, epsilon=None, analyst_cover=None)
    assert Rules().objections(exact) == []
    for limit in ("max_epsilon_per_job", "max_epsilon_per_analyst"):
        (objection,) = Rules.model_validate({limit: 100.0}).objections(exact)
        assert objection == "an exact result has no finite epsilon, so it is above every limit on epsilon"


@pytest.mark.parametrize(
    ("limits", "automatic", "answer"),
    [((), (), Answer.REFUSE), (("visits",), (), Answer.ASK), (("visits",), ("visits",), Answer.ACCEPT)],
)
def test_an_exact_result_is_refused_asked_about_or_accepted_as_the_owner_says(limits, automatic, answer):
    policy = Policy(automatic=Rules(max_epsilon_per_job=1.0, exact_tables=automatic), limits=Rules(exact_tables=limits))
    assert policy.decide(replace(REQUEST, is_exact=True, epsilon=None, analyst_cover=None)).answer is answer


@pytest.mark.parametrize(
    ("limits", "automatic", "kind", "answer"),
    [
        ({}, {}, "secret", Answer.ACCEPT),
        ({}, {}, "revealed", Answer.ASK),
        ({}, {"matching": ["revealed"]}, "revealed", Answer.ACCEPT),
        ({}, {"matching": ["revealed"]}, "secret", Answer.ASK),
        ({"matching": ["secret"]}, {}, "revealed", Answer.REFUSE),
        ({"matching": ["revealed"]}, {}, "revealed", Answer.ASK),
        ({}, {}, None, Answer.ACCEPT),
    ],
)
def test_rows_are_revealed_without_asking_only_where_the_owner_says_so(limits, automatic, kind, answer):
    policy = Policy.model_validate({"limits": limits, "automatic": {"max_epsilon_per_job": 2.0, **automatic}})
    assert policy.decide(replace(REQUEST, matching=kind)).answer is answer
    only_computes = replace(REQUEST, table="", columns=(), matching=kind)
    assert policy.decide(only_computes).answer is Answer.ACCEPT


def test_rows_that_are_revealed_without_asking_must_be_within_the_limits():
    with pytest.raises(
        ValidationError, match=r"automatic\.matching: 'revealed' is accepted without asking, but outside"
    ):
        Policy.model_validate(
            {
                "limits": {"matching": ["secret"]},
                "automatic": {"max_epsilon_per_job": 2.0, "matching": ["revealed"]},
            }
        )


def test_what_is_exact_without_asking_must_be_within_the_limits():
    with pytest.raises(ValidationError, match="exact_tables"):
        Policy(automatic=Rules(max_epsilon_per_job=1.0, exact_tables=("visits",)))
    allowed = Policy(limits=Rules(exact_tables=("visit",)))
    assert (
        allowed.contradiction({"visits": ("age",)}, 3, "hub") == "policy.limits.exact_tables: there is no table 'visit'"
    )


def test_no_rules_restrict_nothing_and_all_broken_rules_are_told():
    assert Rules().objections(REQUEST) == []
    rules = Rules(analysts=("grace",), max_epsilon_per_job=0.5)
    assert len(rules.objections(REQUEST)) == 2


def test_what_is_not_planned_yet_is_not_held_against_a_job():
    rules = Rules(max_epsilon_per_job=0.1, max_epsilon_per_analyst=0.1)
    assert rules.objections(replace(REQUEST, epsilon=None, analyst_cover=None)) == []


def test_intermediate_products_are_admitted_unless_they_are_refused_in_words():
    multiplies = replace(REQUEST, has_intermediate_products=lambda: True)
    for rules in (Rules(), Rules(intermediate_products=True)):
        assert rules.objections(multiplies) == []
    assert Rules(intermediate_products=False).objections(replace(multiplies, has_intermediate_products=None)) == []
    policy = Policy(automatic=Rules(max_epsilon_per_job=2.0, intermediate_products=False))
    assert policy.decide(REQUEST).answer is Answer.ACCEPT
    assert policy.decide(multiplies).answer is Answer.ASK


def test_helpers_of_a_policy_must_be_peers():
    tables, rules = {"visits": ("age",)}, Rules(helpers=("north", "nroth"))
    policy = Policy(limits=rules)
    assert policy.contradiction(tables, 3, "hub", ("north", "south")) == (
        "policy.limits.helpers: there is no party 'nroth' among the peers"
    )
    assert Policy(limits=Rules(helpers=())).contradiction(tables, 3, "hub", ("north",)) is None


def test_a_party_that_only_computes_has_no_columns_to_object_to():
    assert Rules(columns={"visits": ("age",)}).objections(replace(REQUEST, table="", columns=())) == []


def test_without_a_policy_the_owner_is_asked_about_every_job():
    decision = Policy().decide(REQUEST)
    assert decision.answer is Answer.ASK
    assert decision.objections == ("the policy accepts nothing without asking",)


@pytest.mark.parametrize(
    ("epsilon", "answer"), [(0.5, Answer.ACCEPT), (1.0, Answer.ACCEPT), (1.5, Answer.ASK), (3.0, Answer.REFUSE)]
)
def test_within_automatic_is_accepted_within_the_limits_asked_beyond_refused(epsilon, answer):
    policy = Policy(automatic=Rules(max_epsilon_per_job=1.0), limits=Rules(max_epsilon_per_job=2.0))
    assert policy.decide(replace(REQUEST, epsilon=epsilon)).answer is answer


def test_the_ledger_enforces_the_limit_per_analyst_of_the_rules_that_a_job_was_accepted_by():
    policy = Policy(
        automatic=Rules(max_epsilon_per_job=1.0, max_epsilon_per_analyst=2.0),
        limits=Rules(max_epsilon_per_analyst=4.0),
    )
    assert policy.decide(REQUEST).max_epsilons_per_analyst == (4.0, 2.0)
    assert policy.decide(replace(REQUEST, analyst_cover=coming_to(3.0))).max_epsilons_per_analyst == (4.0,)


@pytest.mark.parametrize(("n_parties", "colluding", "is_accepted"), [(3, 1, 1), (5, 2, 1), (5, 1, 0), (3, 0, 0)])
def test_a_policy_refuses_by_default_what_withstands_fewer_than_the_parties_allow(n_parties, colluding, is_accepted):
    request = replace(REQUEST, n_compute_parties=n_parties, colluding=colluding)
    decision = Policy(automatic=Rules(max_epsilon_per_job=1.0)).decide(request)
    assert decision.answer is (Answer.ACCEPT if is_accepted else Answer.REFUSE)
    if not is_accepted:
        assert f"must withstand {(n_parties - 1) // 2} colluding parties, not {colluding}" in decision.objections[0]
    allowing = Policy(automatic=Rules(max_epsilon_per_job=1.0), limits=Rules(withstand_coalition=colluding))
    assert allowing.decide(request).answer is Answer.ACCEPT


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (
            {"automatic": {}},
            ("automatic.max_epsilon_per_job: missing; it states up to which epsilon jobs are accepted without asking"),
        ),
        ({"automatic": {"max_epsilon_per_job": 2.0}, "limits": {"max_epsilon_per_job": 1.0}}, "2 is accepted .* is 1"),
        (
            {
                "automatic": {"max_epsilon_per_job": 1, "max_epsilon_per_analyst": 9},
                "limits": {"max_epsilon_per_analyst": 8},
            },
            "automatic.max_epsilon_per_analyst",
        ),
        (
            {"automatic": {"max_epsilon_per_job": 1, "min_compute_parties": 3}, "limits": {"min_compute_parties": 5}},
            "automatic.min_compute_parties: 3 is accepted",
        ),
        (
            {"automatic": {"max_epsilon_per_job": 1, "withstand_coalition": 1}, "limits": {"withstand_coalition": 2}},
            "automatic.withstand_coalition",
        ),
        (
            {"automatic": {"max_epsilon_per_job": 1, "analysts": ["eve"]}, "limits": {"analysts": ["ada"]}},
            "automatic.analysts: 'eve' is accepted without asking, but outside",
        ),
        (
            {
                "automatic": {"max_epsilon_per_job": 1, "columns": {"visits": ["age"]}},
                "limits": {"columns": {"visits": ["stay"]}},
            },
            "automatic.columns: columns of 'visits'",
        ),
        (
            {"limits": {"analysts": []}},
            ("analysts: an empty list would allow nothing; leave the field out, or leave out the whole section"),
        ),
        ({"limits": {"analyses": ["mining"]}}, "there is no analysis 'mining'"),
        (
            {"limits": {"max_epsilon_per_job": 3.0, "max_epsilon_per_analyst": 2.0}},
            (
                "max_epsilon_per_job: must not be larger than max_epsilon_per_analyst, which is for all jobs of an "
                "analyst"
            ),
        ),
        (
            {"limits": {"analysts": ["ada"], "receivers": ["coordinator"]}},
            ("receivers: analyst 'ada' may submit jobs, but is not allowed to receive their results"),
        ),
        ({"limits": {"max_epsilon_per_job": -1}}, "must be greater than 0"),
        ({"limits": {"max_epsilon_per_job": "4.0"}}, "valid number"),
        ({"limits": {"max_epsilon_per_job": True}}, "valid number"),
        ({"limits": {"max_epsilon_per_job": 5e-324}}, "not a subnormal"),
        ({"limits": {"max_epsilon_per_analyst": "4.0"}}, "valid number"),
        ({"limits": {"max_epsilon_per_analyst": True}}, "valid number"),
        ({"limits": {"max_epsilon_per_analyst": 5e-324}}, "not a subnormal"),
        (
            {"automatic": {"max_epsilon_per_job": 2.0}, "limits": {"max_epsilon_per_analyst": 1.5}},
            "automatic.max_epsilon_per_job: a job of 2 is accepted without asking, but .* is 1.5",
        ),
        (
            {"automatic": {"max_epsilon_per_job": 1, "helpers": ["a"]}, "limits": {"helpers": []}},
            "automatic.helpers: 'a' is accepted without asking, but outside limits.helpers",
        ),
        (
            {
                "automatic": {"max_epsilon_per_job": 1, "intermediate_products": True},
                "limits": {"intermediate_products": False},
            },
            "automatic.intermediate_products: true, but limits.intermediate_products refuses what it accepts",
        ),
        ({"limits": {"max_epsilon_per_job": float("nan")}}, "finite"),
        ({"limits": {"max_epsilon": 1}}, "Extra inputs"),
        ({"approval_deadline_s": 0}, "greater than 0"),
    ],
)
def test_a_policy_that_contradicts_itself_is_refused(policy, words):
    with pytest.raises(ValidationError, match=words):
        Policy.model_validate(policy)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"columns": {"stays": ["age"]}}, "policy.limits.columns: there is no table 'stays'"),
        ({"columns": {"visits": ["name"]}}, "column 'name' of table 'visits' has no public bounds"),
        ({"min_compute_parties": 4}, "asks for 4 compute parties, but with its peers there are only 3"),
        ({"withstand_coalition": 2}, "asks for 5 compute parties"),
        ({"receivers": ["ada"]}, "policy.limits.receivers: the coordinator 'hub' gets every result"),
    ],
)
def test_a_policy_that_the_rest_of_the_configuration_makes_impossible_is_told(limits, words):
    policy = Policy.model_validate({"limits": limits})
    assert words in (policy.contradiction({"visits": ("age", "stay")}, 3, "hub") or "")
    assert Policy().contradiction({"visits": ("age", "stay")}, 3, "hub") is None


def test_receivers_of_either_set_must_include_the_coordinator():
    tables, some = {"visits": ("age",)}, Rules(max_epsilon_per_job=1.0, receivers=("ada",))
    assert "policy.automatic.receivers" in (Policy(automatic=some).contradiction(tables, 3, "hub") or "")
    both = Rules(max_epsilon_per_job=1.0, receivers=("ada", "hub"))
    assert Policy(automatic=both, limits=both).contradiction(tables, 3, "hub") is None


def test_rules_name_many_columns_at_once() -> None:
    assert Rules(columns={"visits": ("age", "pixel_{0..2}")}).columns == {
        "visits": ("age", "pixel_0", "pixel_1", "pixel_2")
    }


def test_a_column_of_the_table_stands_for_all_that_it_is_encoded_as():
    request = _request_of_encoded_columns()
    assert Policy(limits=Rules(columns={"visits": ["region"]})).decide(request).answer is not Answer.REFUSE
    assert Policy(limits=Rules(columns={"visits": ["region=north"]})).decide(request).answer is Answer.REFUSE


def _request_of_encoded_columns():
    columns = ("region=north", "region=south")
    return Request("ann", "pca", "visits", columns, 3, 1, ("ann",), sources=dict.fromkeys(columns, "region"))


BY_AGE = replace(REQUEST, columns=("stay",), where="adults", where_columns=("age",))


@pytest.mark.parametrize(
    ("rules", "is_admitted"),
    [
        ({}, True),
        ({"columns": {"visits": ["age", "stay"]}}, True),
        ({"columns": {"visits": ["stay"]}}, False),
        ({"columns": {"visits": ["stay"]}, "filters": {"visits": ["adults"]}}, True),
        ({"columns": {"visits": ["stay"]}, "filters": {"visits": {"adults": ["ada"]}}}, True),
        ({"filters": {"visits": {"adults": ["eve"]}}}, False),
        ({"filters": {"visits": {"adults": []}}}, False),
        ({"filters": {"visits": []}}, False),
        ({"filters": {"visits": ["women"]}}, False),
        ({"filters": {"stays": []}}, True),
    ],
)
def test_a_filter_asks_about_columns_that_may_be_used_unless_the_owner_names_it(rules, is_admitted):
    found = Rules.model_validate(rules).objections(BY_AGE)
    expected = [] if is_admitted else ["filter 'adults' of table 'visits' may not be named by 'ada'"]
    assert found == expected
    assert Rules.model_validate(rules).objections(replace(REQUEST, columns=("stay",))) == []


def test_a_filter_that_the_table_does_not_have_is_no_rule():
    for rules, words in (
        ({"filters": {"visits": ["adults"]}}, "table 'visits' has no filter 'adults'"),
        ({"filters": {"stays": []}}, "there is no table 'stays'"),
    ):
        policy = Policy.model_validate({"limits": rules})
        assert words in policy.contradiction({"visits": ["age"]}, 3, "hub", filters={"visits": ("women",)})
        assert policy.contradiction({"visits": [], "stays": []}, 3, "hub", filters={"visits": ("adults",)}) is None


@pytest.mark.parametrize(("limits", "least"), [({}, 1e-3), ({"min_epsilon_per_job": 0.5}, 0.5)])
def test_a_job_of_a_tiny_epsilon_is_refused_also_where_the_owner_states_no_floor(limits, least):
    policy = Policy.model_validate({"limits": limits, "automatic": {"max_epsilon_per_job": 2.0}})
    assert policy.decide(replace(REQUEST, stated_epsilon=least)).answer is Answer.ACCEPT
    for epsilon in (0.99 * least, 1e-9):
        decision = policy.decide(replace(REQUEST, stated_epsilon=epsilon))
        assert decision.answer is Answer.REFUSE
        assert "(min_epsilon_per_job)" in decision.objections[0]
    with pytest.raises(ValidationError, match="min_epsilon_per_job"):
        Policy.model_validate({"limits": {"min_epsilon_per_job": 2.0, "max_epsilon_per_job": 1.0}})
