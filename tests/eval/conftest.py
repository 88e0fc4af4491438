from tests.eval.gate_runs import baseline
from tests.eval.judged import judged_home, made

__all__ = ["baseline", "judged_home", "made"]
