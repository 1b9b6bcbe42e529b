"""The command line as tests use it: with its own cache, without mirrors, 80 columns wide.

Most tests call it inside the test process, and tasks are computed there as well. Tests of processes use `bench`, or the
marker ``processes``. The marker ``faults`` is for fault injection: kills, limits, clusters, fuzzing, full disks.
"""

import gc
import os
import signal

# One BLAS thread per process, as in a worker; it has to be set before NumPy is imported.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import pytest  # noqa: E402
from command_line import Bench, Command  # noqa: E402
from hypothesis import settings  # noqa: E402

# Without a deadline: kernels are compiled on their first call, and continuous integration is slow at times.
settings.register_profile("quick", deadline=None, max_examples=15)
settings.register_profile("thorough", deadline=None, max_examples=100)
settings.load_profile("quick")

# Files that take longest. They are begun first, so that no process is left alone with one at the end.
_LONG = (
    *("fault_runs", "dask", "fault_limits"),
    *(
        "contract",
        "cli",
        "frequent_directions",
        "interrupted_runs",
        "oam",
        "train_and_score",
        "streaming",
        "docs",
        "figure_runs",
    ),
    *("page", "sketched", "verify", "opauc_s", "figures", "hostile_input"),
)


def pytest_addoption(parser):
    group = parser.getgroup("fault injection (-m faults)")
    group.addoption("--fault-factor", type=int, default=1, help="times the usual number of kills, damages and inputs")
    group.addoption("--fault-seed", type=int, default=0, help="seed of kills, damages and inputs")


def pytest_configure(config):
    # A shell starts commands in the background with SIGINT ignored, and processes of tests would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("markexpr").startswith("faults") and not config.getoption("--hypothesis-profile"):
        settings.load_profile("thorough")


def pytest_collection_modifyitems(items):
    ranks = {f"test_{name}": rank for rank, name in enumerate(_LONG)}
    items.sort(key=lambda item: ranks.get(item.path.stem, len(ranks)))


def pytest_collection_finish():
    """Keep the garbage collector from looking through modules and tests again and again: they stay to the end."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session")
def environment(tmp_path_factory) -> dict[str, str]:
    """Variables for a command: nothing of this machine's own datasets or settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPAUC_BENCH_", "COVERAGE"))}
    return kept | {
        "OPAUC_BENCH_CACHE": str(tmp_path_factory.mktemp("cache")),
        "COLUMNS": "80",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }


@pytest.fixture(scope="session")
def bench(environment) -> Bench:
    return Bench(environment)


@pytest.fixture(scope="session")
def invoke(environment) -> Command:
    """``opauc-bench`` inside this process, for fixtures that several tests share."""
    return Command(environment)


@pytest.fixture
def hangups():
    """Processes that are started here get SIGHUP even if the tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def command(environment, request) -> Command:
    """``opauc-bench`` inside this process."""
    return Command(environment, processes=request.node.get_closest_marker("processes") is not None)
