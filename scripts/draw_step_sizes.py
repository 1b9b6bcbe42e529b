"""Draw the AUC against the step size from the records of table2_wide, for docs/results.md.

    python scripts/draw_step_sizes.py        writes results/table2_wide/step_sizes.png

The AUC is that of the inner cross-validation: the mean over the outer folds of the best one over the regularisation.
The published range of step sizes is shaded.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

from opauc_bench import load_results
from opauc_bench.report.figure_style import style_of
from opauc_bench.values import grid_values

FOLDER = Path(__file__).resolve().parents[1] / "results" / "table2_wide"
DATASETS = ("german", "splice", "letter", "magic04", "a9a", "ijcnn1")
LEARNERS = ("opauc", "oam_seq", "oam_gra", "uni_log", "uni_squ")
PUBLISHED = grid_values({"pow2": [-12, 10]})
HEIGHT = 0.06  # of a panel, in units of AUC


def main() -> None:
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    grid = load_results(FOLDER, grid=True)
    figure, panels = plt.subplots(2, 3, figsize=(10, 6), layout="constrained")
    for dataset, panel in zip(DATASETS, panels.flat, strict=True):
        rows = grid[grid.dataset == dataset]
        best = rows.groupby(["learner", "trial", "fold", "eta"])["inner_auc"].max()
        mean = best.groupby(["learner", "eta"]).mean().unstack("learner")
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
    figure.savefig(FOLDER / "step_sizes.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
