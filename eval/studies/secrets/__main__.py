"""`python -m palimpsest.eval.studies.secrets`: recall by kind and false alarms, the held-out half first."""

import sys

from palimpsest.eval.studies.secrets.measure import Figures, examples, measure


def main() -> None:
    """Prints the figures; with `--misses` also what the half that may be looked at misses."""
    for name, held_out in (("held out", True), ("tuned on", False)):
        figures = measure(examples(held_out))
        sys.stdout.write("\n".join(lines(name, figures)) + "\n")
        if not held_out and "--misses" in sys.argv:
            told = [*(("missed", e) for e in figures.missed), *(("alarm", e) for e in figures.alarms)]
            sys.stdout.write("".join(f"  {why}: {e.kind}: {e.text!r}\n" for why, e in told))


def lines(name: str, figures: Figures) -> list[str]:
    """Returns the figures of one half as lines of text."""
    secrets = sum(n for _, n in figures.found.values())
    head = f"{name}: recall {figures.recall:.3f} of {secrets} secrets, "
    head += f"false alarms {figures.false_alarms:.4f} of {figures.clean} clean texts"
    return [head, *(f"  {kind:22} {n}/{of}" for kind, (n, of) in sorted(figures.found.items()))]


if __name__ == "__main__":
    main()
