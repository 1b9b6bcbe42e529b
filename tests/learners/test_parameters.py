"""Every parameter of every learner has a constraint, which holds however the learner is used."""

import inspect
import re
import warnings
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from reference.examples import examples
from reference.hebb import Hebb
from scipy import sparse
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV

from opauc_bench.config import load_experiment
from opauc_bench.errors import ConfigError, LearnerError
from opauc_bench.learners import (
    FTRLAUC,
    LEARNERS,
    OPAUC,
    OPAUCS,
    DivergenceError,
    FTRLProximal,
    OnePassLearner,
    UniLog,
    get_learner,
    learner_parameters,
    refused_parameters,
    refused_values,
)
from opauc_bench.learners.online import OnlineModel
from opauc_bench.learners.parameters import Boolean, Constraint, Integer, OptionalPath, Options, Real, Seed
from opauc_bench.plan import make_columns

X, Y = examples(20, 3)
NAN, INF = float("nan"), float("inf")
NOT_NUMBERS = ["0.1", True, False, np.True_, None, NAN, INF, -INF, np.nan, 1j, [0.1], np.array(0.1)]

# The documented range of each parameter, apart from the code: lower bound, and whether it is excluded.
RANGES = {
    **dict.fromkeys(("eta", "gamma", "xi", "radius", "C", "gap", "delta"), (0, True)),
    **dict.fromkeys(("l1", "l2", "beta", "mu", "rho", "slack"), (0, False)),
    **dict.fromkeys(("buffer_size", "n_components", "tau"), (1, False)),
}
RANGES_OF = {
    ("opauc_fd", "tau"): (2, False),
    ("adagrad", "eps"): (0, False),
    ("svm_perf", "eps"): (0, True),
    **{(name, "lam"): (0, True) for name in ("svm_or", "rank_svm_l2", "ls_svm", "batch_uni_log", "batch_uni_squ")},
    **{(name, "lam"): (0, False) for name in LEARNERS if name.startswith("opauc") or name == "ada_oam"},
}
ALL = [(name, parameter) for name in LEARNERS for parameter in get_learner(name)().get_params()]


def wrong_values(name: str, parameter: str) -> list:
    """Values of the wrong type, out of range, text, bool, nan."""
    default = get_learner(name)().get_params()[parameter]
    if isinstance(default, bool):
        return ["true", 0, 1, None, NAN]
    if isinstance(default, str):
        return ["unknown", "", None, 0, True, NAN, ["paper"]]
    if parameter == "random_state":
        return ["0", -1, 1.0, True, NAN]
    if parameter == "program":
        return [1, True, NAN]
    bound, excluded = RANGES_OF.get((name, parameter)) or RANGES[parameter]
    below = [-1, -0.1, bound - 1] + ([0, 0.0, -0.0] if excluded else [])
    return [*NOT_NUMBERS, *below, *([2.5, 50.0, "50", 2**31, 10**400] if isinstance(default, int) else [10**400])]


@cache
def expected(name: str, parameter: str) -> str:
    return str(get_learner(name).parameter_constraints[parameter])


@pytest.mark.parametrize(("name", "parameter"), ALL)
def test_every_parameter_refuses_wrong_types_and_values_out_of_range(name, parameter):
    class_ = get_learner(name)
    assert parameter in class_.parameter_constraints, f"{class_.__name__}.{parameter} has no constraint"
    message = f"{class_.__name__}: {parameter} has to be {expected(name, parameter)}, got "
    for value in wrong_values(name, parameter):
        shown = repr(value.item() if isinstance(value, np.generic) else value)
        with pytest.raises(ValueError, match=re.escape(message + shown)):
            class_(**{parameter: value}).fit(X, Y)


@pytest.mark.parametrize("name", LEARNERS)
def test_docstrings_have_all_parameters_and_fitted_attributes_once(name):
    learner = get_learner(name)()
    documented = re.findall(r"^(\w+) : ", type(learner).__doc__, re.MULTILINE)
    fitted = [found for found in documented if found.endswith("_")]
    assert documented == [*inspect.signature(type(learner)).parameters, *fitted]
    assert {"coef_", "intercept_", "classes_"} <= set(fitted) <= set(vars(learner.fit(X, Y)))
    assert "\nReferences\n----------\n" in type(learner).__doc__


@pytest.mark.parametrize("name", LEARNERS)
def test_bounds_that_are_included_and_defaults_are_accepted(name):
    learner = get_learner(name)()
    learner.check_params()
    for parameter in learner.get_params():
        bound, excluded = RANGES_OF.get((name, parameter)) or RANGES.get(parameter, (0, True))
        if not excluded:
            others = {"l2": 1.0} if parameter == "beta" else {}  # one of the two has to be > 0
            for value in (bound, np.int64(bound)):
                get_learner(name)(**{parameter: value}, **others).check_params()


@pytest.mark.parametrize("name", LEARNERS)
def test_grid_values_go_through_the_same_constraints(name):
    class_ = get_learner(name)
    for axis in class_.grid_axes:
        for value in [value for value in wrong_values(name, axis) if np.ndim(value) == 0]:
            with pytest.raises(ValueError, match=f"{class_.__name__}: {axis} has to be {expected(name, axis)}, got "):
                class_().fit_grid(X, Y, {axis: [getattr(class_(), axis), value]})


ONE_PASS = [name for name in LEARNERS if issubclass(get_learner(name), OnePassLearner) and get_learner(name).streams]


@pytest.mark.parametrize("name", ONE_PASS)
def test_partial_fit_and_online_models_refuse_a_negative_step(name):
    class_ = get_learner(name)
    wrong = class_(**{class_.grid_axes[0]: -1.0})
    message = f"^{class_.__name__}: {class_.grid_axes[0]} has to be a number >=? 0, got -1.0$"
    with pytest.raises(LearnerError, match=message):
        OnlineModel(wrong)
    if hasattr(wrong, "partial_fit"):
        with pytest.raises(ValueError, match=message):
            wrong.partial_fit(X, Y)


def test_partial_fit_checks_parameters_that_were_changed_between_calls():
    learner = UniLog().partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"UniLog: weights has to be one of none, balanced, prior, got 'equal'"):
        learner.set_params(weights="equal").partial_fit(X, Y)


@pytest.mark.parametrize(("name", "parameter"), [place for place in ALL if place[0] in ONE_PASS])
def test_partial_fit_refuses_other_parameters_than_the_pass_began_with(name, parameter):
    """The state was made for them: a smaller ``tau`` made the kernel of OPAUCS write outside of its arrays."""
    learner = get_learner(name)()
    if not hasattr(learner, "partial_fit"):
        return
    learner.partial_fit(X, Y)
    began, constraint = getattr(learner, parameter), learner.parameter_constraints[parameter]
    others = constraint.words if isinstance(constraint, Options) else [True, False, 3, 0.5]
    other = next(value for value in others if value != began and constraint.accepts(value))
    with pytest.raises(ValueError, match=f"the pass began with {parameter}=.*: call fit again, or set it back"):
        learner.set_params(**{parameter: other}).partial_fit(X, Y)
    learner.set_params(**{parameter: began}).partial_fit(X, Y)


def test_partial_fit_takes_a_fraction_as_a_step():
    learner = UniLog(eta=Fraction(1, 3)).partial_fit(X, Y).partial_fit(X, Y)
    assert learner.n_samples_seen_ == 2 * len(Y)


@pytest.mark.parametrize("class_", [FTRLAUC, FTRLProximal])
def test_ftrl_refuses_beta_0_without_l2(class_):
    with pytest.raises(ValueError, match=rf"^{class_.__name__}: beta has to be a number > 0 if l2 is 0, got 0$"):
        class_(beta=0).fit(X, Y)
    assert np.isfinite(class_(beta=0, l2=0.1).fit(X, Y).coef_).all()


def test_overflow_names_a_fraction_as_a_number():
    with pytest.raises(DivergenceError, match=r"\(eta=1e\+300\)"):
        UniLog(eta=Fraction(10**300)).fit(1e10 * X, Y)


def test_opauc_s_with_a_huge_slack_equals_one_that_drops_nothing():
    unlimited = OPAUCS(tau=1, slack=10.0).fit(X, Y)
    for slack in (1e200, np.int8(10)):
        assert np.array_equal(OPAUCS(tau=1, slack=slack).fit(X, Y).coef_, unlimited.coef_)


def test_opauc_s_released_has_no_slack():
    with pytest.raises(ValueError, match=r"OPAUCS: slack has to be 0 for the variant 'released', got 0\.1"):
        OPAUCS(variant="released", slack=0.1).fit(X, Y)


@pytest.mark.parametrize(
    ("constraint", "accepted", "refused", "text"),
    [
        (Real(), [0, -1, 1e-300, np.float32(2)], NOT_NUMBERS, "a finite number"),
        (Real(above=0), [1, 1e-300], [*NOT_NUMBERS, 0, -1e-300], "a number > 0"),
        (Real(at_least=0.5), [0.5, 1], [*NOT_NUMBERS, 0.499], "a number >= 0.5"),
        (Integer(at_least=2), [2, np.int8(3)], [*NOT_NUMBERS, 1, 2.0, 2**31], "an integer from 2 to 2147483647"),
        (Boolean(), [True, np.False_], [0, 1, "True", None], "True or False"),
        (Options("a", "b"), ["a", "b", np.str_("a")], ["c", "A", None, 0, ["a"]], "one of a, b"),
        (
            Seed(),
            [None, 0, 2**100, np.int64(3), np.random.default_rng(0)],
            [-1, 1.0, "0", True],
            "None, an integer >= 0 or a",
        ),
        (OptionalPath(), [None, "a", Path("a")], [0, True], "None or the path of a file"),
    ],
)
def test_constraints(constraint: Constraint, accepted, refused, text):
    assert all(constraint.accepts(value) for value in accepted)
    assert not [value for value in refused if constraint.accepts(value)]
    assert str(constraint).startswith(text)


EXPERIMENT = """title: A test
datasets: [wine]
learners:
  - {{learner: {learner}, params: {{{params}}}, grid: {{{grid}}}}}
protocol: {{trials: 1, folds: 3, inner_folds: 2, seed: 0}}
"""


def columns_of(path, learner, params="", grid=""):
    path.write_text(EXPERIMENT.format(learner=learner, params=params, grid=grid))
    known = {"refused_parameters": refused_parameters, "refused_values": refused_values}
    return make_columns(load_experiment(path, learner_parameters=learner_parameters, **known), get_learner)


@pytest.mark.parametrize(
    ("learner", "params", "grid", "message"),
    [
        ("opauc", "eta: -1", "lam: [0.1]", "OPAUC: eta has to be a number > 0, got -1"),
        ("ftrl_auc", "lazy: 1", "gamma: [0.1], l1: [0.1]", "FTRLAUC: lazy has to be True or False, got 1"),
        ("rda_l1", "l1: '0.1'", "gamma: [1], rho: [0]", "RDAL1: l1 has to be a number >= 0, got '0.1'"),
        ("opauc_fd", "tau: 1", "eta: [1], lam: [1]", "OPAUCFD: tau has to be an integer from 2 to 2147483647, got 1"),
    ],
)
def test_config_error_names_place_learner_and_parameter(tmp_path, learner, params, grid, message):
    with pytest.raises(ConfigError) as raised:
        columns_of(tmp_path / "x.yaml", learner, params, grid)
    place = rf"{re.escape(str(tmp_path / 'x.yaml'))}:4:\d+: learners\[0\]\.params\.\w+: "
    assert re.fullmatch(place + re.escape(message), raised.value.message)


def test_grid_of_a_config_takes_0_where_the_constraint_does(tmp_path):
    columns = columns_of(tmp_path / "x.yaml", "ftrl_auc", grid="gamma: [0.1], l1: [0, 0.1]")
    assert columns[0].grid["l1"] == (0.0, 0.1)
    with pytest.raises(
        ConfigError, match=r":4:\d+: learners\[0\]\.grid\.gamma\[0\]: FTRLAUC: gamma has to be a number > 0"
    ):
        columns_of(tmp_path / "x.yaml", "ftrl_auc", grid="gamma: [0, 0.1], l1: [0.1]")


CONSTRAINED = """from opauc_bench.learners import UniLog
from opauc_bench.learners.parameters import Real

class Mine(UniLog):
    parameter_constraints = {"eta": Real(at_least=0.25)}

    def __init__(self, eta=1.0):
        super().__init__(eta)
"""


@pytest.mark.parametrize(
    ("learners", "grids", "places"),
    [
        ("own.py:Mine", "eta: [0.125, 1, 0.2]", ["3:15: grids.eta[0]", "3:25: grids.eta[2]"]),
        ("own.py:Mine", "eta: {pow2: [-5, 2]}", ["3:14: grids.eta"]),
        ("uni_log, {learner: own.py:Mine, grid: {eta: [1, 0.125]}}", "eta: [0.125]", ["2:60: learners[1].grid.eta[1]"]),
        ("uni_log, {learner: own.py:Mine, params: {eta: 1}}", "eta: [0.125]", []),
        ("uni_log, own.py:Mine", "eta: [0, 1]", ["3:15: grids.eta[0]"]),
    ],
)
def test_config_error_for_each_grid_value_that_a_learner_refuses(tmp_path, learners, grids, places):
    (tmp_path / "own.py").write_text(CONSTRAINED)
    path = tmp_path / "x.yaml"
    path.write_text(f"{{title: t, datasets: [wine],\nlearners: [{learners}],\ngrids: {{{grids}}}}}\n")
    known = {"refused_parameters": refused_parameters, "refused_values": refused_values}
    try:
        load_experiment(path, learner_parameters=learner_parameters, **known)
        found = []
    except ConfigError as error:
        found = error.message.split("\n")
    assert len(found) == len(places)
    for line, place in zip(found, places):
        assert re.fullmatch(
            rf"{re.escape(str(path))}:{re.escape(place)}: \w+: eta has to be a number >=? [\d.]+, got [\d.]+", line
        )


def test_grids_take_0_where_all_learners_do(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("{title: t, datasets: [wine], learners: [opauc], grids: {eta: [1], lambda: [0, 1]}}\n")
    experiment = load_experiment(path, learner_parameters=learner_parameters, refused_values=refused_values)
    assert experiment.grids["lam"] == (0.0, 1.0)


class Unconstrained(Hebb):
    def __init__(self, eta=0.01, scale="large", power=2):
        super().__init__(eta)
        self.scale = scale
        self.power = power


def test_learners_without_constraints_have_finite_grid_axes_and_any_other_parameters():
    assert Unconstrained(eta=-1, scale=None, power="two").fit(X, Y).coef_.shape == (1, 3)
    for value in ("0.1", True, NAN):
        with pytest.raises(ValueError, match="Unconstrained: eta has to be a finite number, got "):
            Unconstrained(eta=value).fit(X, Y)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_grid_search_over_diverging_settings_reports_nothing_with_the_documented_filters(form):
    rows, y = examples(60, 3)
    search = GridSearchCV(OPAUC(), {"eta": [2.0**-6, 1e100, 1e150]}, scoring="roc_auc")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", FitFailedWarning)
        warnings.filterwarnings("ignore", "One or more of the test scores are non-finite")
        search.fit(form(rows), y)
    assert not caught
    assert search.best_params_ == {"eta": 2.0**-6}
    assert np.isnan(search.cv_results_["mean_test_score"][1:]).all()


def test_refused_parameters_lists_all_of_a_learner():
    params = {"tau": 1, "lam": -1.0, "eta": 0.5}
    assert refused_parameters("opauc_fd", params) == [
        ("tau", "OPAUCFD: tau has to be an integer from 2 to 2147483647, got 1"),
        ("lam", "OPAUCFD: lam has to be a number >= 0, got -1.0"),
    ]
    assert refused_parameters("opauc_fd", {"tau": 2}) == []
    released = {"variant": "released", "slack": 0.1}
    ((name, message),) = refused_parameters("opauc_s", released)
    assert name == ""
    assert "OPAUCS: slack has to be 0 for the variant 'released', got 0.1" in message


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("def seconds_per_row(self, d, k, n): return 1 / 0", "cannot be used: division by zero ({file}:4)"),
        ("def memory_bytes(self, d, n): return None", "cannot be used: its cost has to be seconds and bytes, got ("),
    ],
)
def test_refused_cost_of_a_learner_from_a_file(tmp_path, method, message):
    file = tmp_path / "own.py"
    file.write_text(f"from opauc_bench.learners import UniLog\n\nclass Mine(UniLog):\n    {method}\n")
    ((name, found),) = refused_parameters(f"{file}:Mine", {})
    assert name == ""
    assert found.startswith(message.format(file=file))


def test_values_that_learners_refuse_are_reported_at_once_with_their_places(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(
        "title: t\ndatasets: [german]\nlearners:\n"
        "  - {learner: opauc_fd, params: {tau: 1, lam: -1}}\n"
        "  - {learner: oam_seq, params: {buffer_size: true}}\n"
        "grids: {eta: [1.0]}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_experiment(path, learner_parameters=learner_parameters, refused_parameters=refused_parameters)
    assert [line.split(" learners", 1)[1] for line in caught.value.message.splitlines()] == [
        "[0].params.tau: OPAUCFD: tau has to be an integer from 2 to 2147483647, got 1",
        "[0].params.lam: OPAUCFD: lam has to be a number >= 0, got -1",
        "[1].params.buffer_size: OAMSeq: buffer_size has to be an integer from 1 to 2147483647, got True",
    ]
