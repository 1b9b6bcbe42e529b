"""Draw the AUC against the step size from the records of table2_wide, for docs/results.md.

    python scripts/draw_step_sizes.py        writes results/table2_wide/step_sizes.png

The AUC is that of the inner cross-validation: the mean over the outer folds of the best one over the regularisation.
The published range of step sizes is shaded.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

from opauc_bench import load_results
from opauc_bench.report.figure_style import style_of
from opauc_bench.values import grid_values

FOLDER = Path(__file__).resolve().parents[1] / "results" / "table2_wide"
DATASETS = ("german", "splice", "letter", "magic04", "a9a", "ijcnn1")
LEARNERS = ("opauc", "oam_seq", "oam_gra", "uni_log", "uni_squ")
PUBLISHED = grid_values({"pow2": [-12, 10]})
DRAWING = FOLDER / "step_sizes.png"
HEIGHT = 0.06  # of a panel, in units of AUC


def points() -> pd.DataFrame:
    """The mean AUC of each dataset, learner and step size."""
    grid = load_results(FOLDER, grid=True)
    grid = grid[grid.dataset.isin(DATASETS) & grid.learner.isin(LEARNERS)]
    best = grid.groupby(["dataset", "title", "learner", "trial", "fold", "eta"])["inner_auc"].max()
    return best.groupby(["dataset", "learner", "title", "eta"]).mean().reset_index()


def hash_of(found: pd.DataFrame) -> str:
    """Of the points as text; the drawing has it among its metadata."""
    return hashlib.sha256(found.to_csv(index=False, float_format="%.6g", lineterminator="\n").encode()).hexdigest()


def is_outdated() -> bool:
    """Whether the drawing is not of the points that the records give."""
    from PIL import Image

    with Image.open(DRAWING) as image:
        return image.info.get("Points") != hash_of(points())


def write() -> None:
    """Draw the points."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = points()
    figure, panels = plt.subplots(2, 3, figsize=(10, 6), layout="constrained")
    for dataset, panel in zip(DATASETS, panels.flat, strict=True):
        rows = found[found.dataset == dataset]
        mean = rows.pivot(index="eta", columns="learner", values="inner_auc")
        panel.axvspan(np.log2(PUBLISHED[0]), np.log2(PUBLISHED[-1]), color="0.9", zorder=0)
        for learner in LEARNERS:
            title = rows.title[rows.learner == learner].iloc[0]
            style = style_of(learner)
            marks = {"color": style.colour, "marker": style.marker, "markersize": 3, "linewidth": 1}
            panel.plot(np.log2(mean.index), mean[learner], label=title, **marks)
        top = np.nanmax(mean[list(LEARNERS)])
        panel.set(title=dataset, ylim=(top - HEIGHT, top + 0.05 * HEIGHT))
    figure.supxlabel("step size η, as a power of 2", fontsize="medium")
    figure.supylabel("AUC of the inner cross-validation", fontsize="medium")
    panels[0, 0].legend(fontsize="x-small", loc="lower left")
    figure.savefig(DRAWING, dpi=110, metadata={"Software": None, "Points": hash_of(found)})


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    write()


if __name__ == "__main__":
    main()
