"""The figures of all peers as Markdown tables."""

from collections.abc import Callable, Sequence

from palimpsest_eval.metrics.latency import Machine
from palimpsest_eval.peers.job import Phase
from palimpsest_eval.peers.peer_report import PeerReport
from palimpsest_eval.peers.registry import CAPABILITIES

_NONE = "-"


def markdown(reports: Sequence[PeerReport], machine: Machine) -> str:
    """Returns the tables: builds, searches, recall, stale memories, capabilities, and what failed."""
    sections = [
        f"{machine.cpu}, {machine.cpus} cores, load {machine.load_1min:.1f} at the start, Python {machine.python}; "
        "medians of the rounds.",
        _table(reports, _BUILD_COLUMNS),
        _table(reports, _SEARCH_COLUMNS),
        _table(reports, [(name, _recall(name)) for name in _names(reports, "recall")], "R@5"),
        _table(
            reports, [(name, _stale(name)) for name in _names(reports, "stale")], "stale@5 (R@5 of what is current)"
        ),
        _table(reports, [(name.replace("_", " "), _can(name)) for name in CAPABILITIES], "can"),
        *(_failures(reports)),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


_Column = tuple[str, Callable[[PeerReport], str]]


def _table(reports: Sequence[PeerReport], columns: Sequence[_Column], corner: str = "") -> str:
    if not columns:
        return ""
    head = f"| {corner} | " + " | ".join(name for name, _ in columns) + " |"
    lines = [head, "|---" * (len(columns) + 1) + "|"]
    for report in reports:
        cells = (cell(report).replace("|", "\\|") for _, cell in columns)
        lines.append(f"| {report.info.name} {report.info.version} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _rate(report: PeerReport) -> str:
    phase = report.phases.get("build")
    return _NONE if phase is None else _number(report.texts / phase.seconds)


def _own_rate(report: PeerReport) -> str:
    phase = report.phases.get("build")
    own = phase.seconds - phase.embedding_s if phase else 0.0
    return _number(report.texts / own) if own > 0 else _NONE


def _lm(report: PeerReport) -> str:
    use = report.lm
    return f"{use.calls} ({use.words_in}/{use.words_out} words)" if use.calls else "0"


def _embedded(report: PeerReport) -> str:
    return "/".join(str(p.embedded) for p in report.phases.values() if not p.unsupported)


def _disk(report: PeerReport) -> str:
    parts = [_number(mb) for mb in (report.disk_mb, report.server_disk_mb) if mb is not None]
    return " + ".join(parts) or _NONE


def _phase(name: str) -> Callable[[PeerReport], str]:
    def cell(report: PeerReport) -> str:
        phase: Phase | None = report.phases.get(name)
        if phase is None:
            return _NONE
        return "no" if phase.unsupported else f"{phase.seconds:.2f}"

    return cell


_BUILD_COLUMNS: list[_Column] = [
    ("texts x rounds", lambda report: f"{report.texts} x {report.rounds}"),
    ("texts/s", _rate),
    ("without embedding", _own_rate),
    ("unchanged again, s", _phase("rebuild_same")),
    ("1 % changed, s", _phase("rebuild_changed")),
    ("1 % named by the caller, s", _phase("update")),
    ("embedded", _embedded),
    ("LM calls", _lm),
]
_SEARCH_COLUMNS: list[_Column] = [
    ("p95, ms", lambda report: _number(report.p95_ms)),
    ("without embedding", lambda report: _number(report.p95_own_ms)),
    ("disk (own files + server's), MB", _disk),
    ("peak memory, MB", lambda report: _number(report.peak_mb)),
    ("server's, MB", lambda report: _number(report.server_peak_mb)),
]


def _recall(suite: str) -> Callable[[PeerReport], str]:
    return lambda report: f"{report.recall[suite]:.3f}" if suite in report.recall else _NONE


def _stale(collection: str) -> Callable[[PeerReport], str]:
    def cell(report: PeerReport) -> str:
        scores = report.stale.get(collection)
        return f"{scores.stale:.3f} ({scores.recall:.3f})" if scores else _NONE

    return cell


def _can(name: str) -> Callable[[PeerReport], str]:
    return lambda report: report.info.can.get(name, "no")


def _names(reports: Sequence[PeerReport], field: str) -> list[str]:
    return list(dict.fromkeys(name for report in reports for name in getattr(report, field)))


def _number(value: float | None) -> str:
    return _NONE if value is None else f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def _failures(reports: Sequence[PeerReport]) -> list[str]:
    """Returns what failed, and which operations a peer lacks."""
    lines = [f"- {r.info.name}: {error}" for r in reports for error in r.errors]
    lines += [
        f"- {r.info.name}, {name.replace('_', ' ')}: {phase.unsupported}"
        for r in reports
        for name, phase in r.phases.items()
        if phase.unsupported
    ]
    return ["What was not measured, and why:", "\n".join(lines)] if lines else []
