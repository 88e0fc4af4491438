"""`python -m tests.secrets`: recall by kind and false alarms, the half that was kept apart first."""

import sys

from tests.secrets.measure import DetectionMetrics, examples, measure_detection


def main() -> None:
    """Prints the metrics; with `--misses` also every error on the half that may be read."""
    for name, held_out in (("kept apart", True), ("tuned on", False)):
        metrics = measure_detection(examples(held_out))
        sys.stdout.write("\n".join(_format_metrics(name, metrics)) + "\n")
        if not held_out and "--misses" in sys.argv:
            errors = [*(("missed", e) for e in metrics.missed), *(("alarm", e) for e in metrics.alarms)]
            sys.stdout.write("".join(f"  {why}: {e.kind}: {e.text!r}\n" for why, e in errors))


def _format_metrics(name: str, metrics: DetectionMetrics) -> list[str]:
    """Returns the metrics of one half as lines of text."""
    secrets = sum(n for _, n in metrics.found.values())
    head = f"{name}: recall {metrics.recall:.3f} of {secrets} secrets, "
    head += f"false alarms {metrics.false_alarms:.4f} of {metrics.clean} clean texts"
    return [head, *(f"  {kind:22} {n}/{of}" for kind, (n, of) in sorted(metrics.found.items()))]


if __name__ == "__main__":
    main()
