"""Rows of named counts, ``word:count word:count ... #label#:class``: the form of Blitzer's product reviews."""

from array import array

import numpy as np

from .forms import Form
from .lines import Block, LineProblem, finite_number, shown

__all__ = ["TokenCounts"]

_LABEL = b"#label#"
_LONG = 300  # digits from which a number may overflow


class TokenCounts:
    """A reader that numbers words in the order in which they first appear, through all files of a form."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}

    def parse(self, text: bytes, first_line: int, form: Form, n_features: int) -> Block:
        """Parse whole lines; the words that are new get the next numbers.

        Raises
        ------
        LineProblem
        """
        from scipy.sparse import csr_matrix

        del form
        labels: list[str] = []
        indptr, indices, data = array("i", [0]), array("i"), array("d")
        for line_number, line in enumerate(text.split(b"\n"), first_line):
            tokens = line.split()
            if not tokens:
                continue
            word, _, label = tokens.pop().rpartition(b":")
            if word != _LABEL or not label:
                came = shown(line.split()[-1])
                raise LineProblem(line_number, f"expected {_LABEL.decode()}:class at the end of the line, got {came}")
            labels.append(label.decode("utf-8", "replace"))
            row = self._row(tokens, line_number)
            if len(self._numbers) > n_features:
                raise LineProblem(line_number, f"expected at most {n_features:,} different words, got more")
            indices.extend(sorted(row))
            data.extend(row[index] for index in sorted(row))
            indptr.append(len(indices))
        X = csr_matrix(
            (np.array(data), np.array(indices, dtype=np.int32), np.array(indptr, dtype=np.int32)),
            shape=(len(labels), n_features),
        )
        return Block(X, np.array(labels, dtype=np.str_))

    def _row(self, tokens: list[bytes], line_number: int) -> dict[int, float]:
        numbers, row = self._numbers, {}
        for token in tokens:
            word, _, count = token.rpartition(b":")
            if not word:
                raise LineProblem(line_number, f"expected word:count, got {shown(token)}")
            index = numbers.setdefault(word, len(numbers))
            if index in row:
                raise LineProblem(line_number, f"expected each word once in a line, got {shown(word)} again")
            plain = count.isdigit() and len(count) < _LONG
            row[index] = float(count) if plain else finite_number(count, line_number, f"the count of {shown(word)}")
        return row
