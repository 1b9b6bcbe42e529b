"""Fuzzing of every reader: it has to give the rows of a slow reference, or an error with file and line.

    python tests/faults/fuzz.py --inputs 100000 --seed 0 [--mode compiled|checked|python] [--blind]

Inputs are guided by the coverage of the readers' code (needs atheris: pip install atheris), or with --blind only
changed at random. The modes are about the compiled reader: as it is; with every access to an array checked; not
compiled, so that its branches guide as well. An input with any other outcome is kept under tests/fixtures/fuzz, from
where a test replays it. Exit code 1 if there was one. ``pytest -m faults`` runs it in each mode.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

_PLACE = "OPAUC_BENCH_FUZZ_PLACE"
_PRINTED_EVERY = 10_000
_ENOUGH = 30  # different findings
ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "tests" / "fixtures" / "fuzz"
MODES = {"compiled": {}, "checked": {"NUMBA_BOUNDSCHECK": "1"}, "python": {"NUMBA_DISABLE_JIT": "1"}}
WORDS = (
    *(b"1 0 : 1:1 2:.5 # , -1 1e999 nan inf _ good #label#: 9223372036854775808 18446744073709551616 3,17".split()),
    *(b" ", b"\n", b"\r\n", b"\t", b"\v", b"\0", b"\xff\xfe", b"\xef\xbb\xbf"),
)


class Inputs:
    """Inputs so far, their outcomes, and what is kept.

    Parameters
    ----------
    total : int
        Inputs to come.
    place : Path
        For files.
    """

    def __init__(self, total: int, place: Path):
        from reference.hostile import examine

        self.examine, self.total, self.place = examine, total, place
        self.outcomes: Counter[str] = Counter()
        self.found: dict[tuple, Path] = {}
        self.began = time.monotonic()

    def __call__(self, data: bytes) -> None:
        try:
            self.outcomes[self.examine(data, self.place)] += 1
        except Exception as error:
            self._keep(data, error)
        count = sum(self.outcomes.values())
        if count % _PRINTED_EVERY == 0:
            print(f"{count:,} inputs, {len(self.found)} findings", flush=True)
        if count >= self.total or len(self.found) >= _ENOUGH:
            self.print_summary()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1 if self.found else 0)  # the fuzzing engine would go on, or end without a message

    def _keep(self, data: bytes, error: Exception) -> None:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        caller = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)][-2:]
        kind = (data[:1], type(error).__name__, frame.name, *caller)
        self.outcomes["FOUND"] += 1
        if kind in self.found:
            return
        KEPT.mkdir(exist_ok=True)
        self.found[kind] = KEPT / f"{hashlib.sha256(data).hexdigest()[:16]}.bin"
        self.found[kind].write_bytes(data)
        print(f"FOUND {self.found[kind]}: {type(error).__name__}: {' '.join(str(error).split())[:300]}", flush=True)

    def print_summary(self) -> None:
        seconds = time.monotonic() - self.began
        print(f"{sum(self.outcomes.values()):,} inputs in {seconds:.0f} s, {len(self.found)} kept in {KEPT}")
        for outcome, count in sorted(self.outcomes.items()):
            print(f"  {outcome:28} {count:>10,}")


def guided(inputs: Inputs, seed: int, seeds: list[bytes], corpus: Path) -> None:
    """Let atheris select the inputs; it prints its coverage (cov: edges, ft: features) now and then."""
    import atheris

    start = inputs.place / "seeds"
    start.mkdir()
    for number, data in enumerate(seeds):
        (start / str(number)).write_bytes(data)
    words = inputs.place / "words"
    words.write_text("".join('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in WORDS))
    options = [f"-seed={seed + 1}", f"-runs={10 * inputs.total}", f"-dict={words}", "-max_len=4096"]
    options += ["-timeout=300", "-report_slow_units=300", f"-artifact_prefix={inputs.place}/"]
    atheris.Setup([sys.argv[0], *options, "-print_final_stats=1", str(corpus), str(start)], inputs)
    atheris.Fuzz()


def blind(inputs: Inputs, seed: int, seeds: list[bytes]) -> None:
    """Change known inputs at random."""
    rng = random.Random(seed)
    for data in seeds:
        inputs(data)
    while True:
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.randrange(1, 6)):
            at, kind = rng.randrange(len(data) + 1), rng.randrange(5)
            if kind == 0:
                data[at:at] = rng.choice(WORDS)
            elif kind == 1:
                del data[at : at + rng.randrange(1, 5)]
            elif kind == 2:
                data[at : at + 1] = bytes([rng.randrange(256)])
            elif kind == 3:
                data[at:at] = data[rng.randrange(len(data) + 1) :][:20]
            else:
                data[1:3] = bytes([rng.randrange(256), rng.randrange(256)])
        inputs(bytes(data))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mode", choices=MODES, default="compiled")
    parser.add_argument("--blind", action="store_true", help="no coverage; atheris is not needed")
    parser.add_argument("--corpus", type=Path, help="folder in which guided inputs are kept from run to run")
    given = parser.parse_args()
    if _PLACE in os.environ:
        return fuzz_here(given, Path(os.environ[_PLACE]))
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as place:
        # numba reads its settings when it is imported, and must not take code of another mode from its cache.
        variables = {**MODES[given.mode], "NUMBA_CACHE_DIR": f"{place}/numba", _PLACE: place}
        command = [sys.executable, *sys.argv]
        with subprocess.Popen(command, env=os.environ | variables, stderr=subprocess.PIPE, text=True) as process:
            coverage = ""
            for line in process.stderr:
                if " cov: " in line:
                    coverage = line.strip()
                elif not line.startswith(("INFO", "#", "\tNEW")):
                    print(line, end="", file=sys.stderr)
        if coverage:
            print(f"last line of libFuzzer: {coverage}")
        return process.returncode


def fuzz_here(given: argparse.Namespace, place: Path) -> int:
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    with contextlib.ExitStack() as stack:
        if not given.blind:
            import atheris

            if given.mode != "python":  # numba cannot compile what atheris has put its counters into
                import opauc_bench.data.svmlight  # noqa: F401
            stack.enter_context(atheris.instrument_imports(include=["opauc_bench.data", "opauc_bench.streaming.model"]))
        from reference.hostile import seeds
    inputs = Inputs(given.inputs, place)
    if given.blind:
        blind(inputs, given.seed, list(seeds()))
    corpus = given.corpus or place / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    guided(inputs, given.seed, list(seeds()), corpus)
    return 1  # neither of them returns


if __name__ == "__main__":
    sys.exit(main())
