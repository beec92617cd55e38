#!/usr/bin/env python3
"""Every metric that the dashboard and the alerts of deploy/observe ask for is exported, with the
labels that they use, and every metric of docs/operate.md is too.

Usage: metrics.py ROOT METRICS     METRICS: what GET /metrics of a serving server answered
       metrics.py --self-test
"""

import json
import pathlib
import re
import sys

NAME = re.compile(r"\bhearth_[a-z0-9_]+")


def exported(text):
    """{name: labels} of a Prometheus text; a histogram has its parts."""
    found = {}
    for line in text.splitlines():
        if match := re.match(r"# TYPE (\S+) histogram", line):
            for part in ("_bucket", "_sum", "_count"):
                found.setdefault(match[1] + part, set())
        elif match := re.match(r"# TYPE (\S+)", line):
            found.setdefault(match[1], set())
        elif match := re.match(r"([a-z0-9_]+)(?:\{(.*)\})? ", line):
            found.setdefault(match[1], set()).update(re.findall(r"(\w+)=\"", match[2] or ""))
    return found


def expressions(root):
    """(where, expression) of the dashboard and the alerts."""
    board = json.loads((root / "deploy/observe/grafana.json").read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield f"panel '{panel['title']}'", target["expr"], target["legendFormat"]
    for alert, expr in re.findall(r"- alert: (\w+)\n\s+expr: '(.*)'",
                                  (root / "deploy/observe/rules.yml").read_text()):
        yield f"alert {alert}", expr, ""


def check(asked, metrics):
    found = []
    for where, expr, legend in asked:
        names = NAME.findall(expr)
        if not names and "up{" not in expr:
            found.append(f"{where}: names no metric")
        labels = set()
        for name in names:
            if name not in metrics:
                found.append(f"{where}: {name} is not exported")
            labels |= metrics.get(name, set())
        for label in re.findall(r"\{\{(\w+)\}\}", legend) + re.findall(r"by \((\w+)\)", expr):
            if label not in labels:
                found.append(f"{where}: no metric of it has the label {label}")
    return found


def check_document(text, metrics):
    """Names in the table; `*` stands for any end. Some are exported for several models alone."""
    found = []
    rows = [line for line in text.splitlines() if line.startswith("|") and "several models" not in line]
    for name in re.findall(r"`(hearth_[a-z0-9_]*\*?)", "\n".join(rows)):
        start = name.rstrip("*")
        ends = ("_bucket",) if not name.endswith("*") else ()
        if not any(each == start or (name.endswith("*") and each.startswith(start)) or
                   each in [start + end for end in ends] for each in metrics):
            found.append(f"docs/operate.md: {name} is not exported")
    return found


def self_test():
    metrics = exported('# TYPE hearth_a_total counter\nhearth_a_total{node="x"} 1\n'
                       '# TYPE hearth_b histogram\nhearth_b_bucket{le="1"} 2\n')
    assert metrics == {"hearth_a_total": {"node"}, "hearth_b_bucket": {"le"}, "hearth_b_sum": set(),
                       "hearth_b_count": set()}, metrics
    good = [("x", "sum by (node) (rate(hearth_a_total[5m]))", "{{node}}"),
            ("x", "histogram_quantile(0.5, sum by (le) (rate(hearth_b_bucket[5m])))", "")]
    assert check(good, metrics) == [], check(good, metrics)
    for bad in (("x", "hearth_c", ""), ("x", "hearth_b", ""), ("x", "hearth_a_total", "{{stage}}"),
                ("x", "sum by (job) (hearth_a_total)", ""), ("x", "1", "")):
        assert check([bad], metrics), bad
    assert check_document("| `hearth_a_total`, `hearth_b`, `hearth_*` |", metrics) == []
    assert check_document("| `hearth_c` |", metrics)
    assert check_document("| `hearth_c_*` |", metrics)
    print("the check finds what it must")


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    root = pathlib.Path(sys.argv[1])
    metrics = exported(pathlib.Path(sys.argv[2]).read_text())
    found = check(list(expressions(root)), metrics)
    document = (root / "docs/operate.md").read_text().split("### Metrics", 1)[1].split("\n###", 1)[0]
    found += check_document(document, metrics)
    print("\n".join(found) or "every metric is exported")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
