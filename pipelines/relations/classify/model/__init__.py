"""The trained part of the offline labeler: training, the stored model, when it may say UPDATE."""
