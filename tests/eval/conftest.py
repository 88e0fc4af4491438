from tests.eval.gate_runs import baseline
from tests.eval.judged import copied_home, judged_home, made

__all__ = ["baseline", "copied_home", "judged_home", "made"]
