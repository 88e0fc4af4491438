"""The pair encoder: what two statements mean to each other, read together by a small fine-tuned transformer."""
