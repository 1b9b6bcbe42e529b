"""What tests ask of LaTeX: whether it would compile, and what is in its cells."""

import re


def check_latex(text):
    """Check what a compiler would stumble over: groups, math, environments, cells of a row, bare specials."""
    body = text.split("\n", 1)[1]  # after the comment
    open_environments = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", body):
        if kind == "begin":
            open_environments.append(name)
        else:
            assert open_environments.pop() == name
    assert open_environments == []
    plain = re.sub(r"\\[&%$#_{}]", "", body.replace(r"\\", ""))
    assert plain.count("{") == plain.count("}")
    assert plain.count("$") % 2 == 0
    outside = re.sub(r"\$[^$]*\$", "", plain)
    assert not re.search(r"[%#_^~<>|\"]", re.sub(r"\\label\{[^}]*\}", "", outside))
    (width,) = {len(row) for row in latex_cells(text)}
    assert rf"\begin{{tabular}}{{{'l' * width}}}" in text


def latex_cells(text):
    """Return the cells of the rows of a table, without the headings of sections."""
    rows = [line.removesuffix(r" \\") for line in text.split("\n") if line.endswith(r" \\")]
    return [re.split(r"(?<!\\) ?& ?", row) for row in rows if not row.startswith(r"\multicolumn")]
