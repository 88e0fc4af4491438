from tests.eval.judged import judged_home, made

__all__ = ["judged_home", "made"]
