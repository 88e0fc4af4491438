"""A real HTTP server of /v1/embeddings: 8 dimensions, a vector for each word by its hash."""

import hashlib
import http.server
import json
import threading

import numpy as np

DIMENSIONS = 8


def vector_of(text: str) -> np.ndarray:
    """The sum of a random vector for each word."""
    seeds = [int(hashlib.sha256(word.encode()).hexdigest()[:8], 16) for word in text.lower().split()]
    return np.sum([np.random.default_rng(s).standard_normal(DIMENSIONS) for s in seeds], axis=0)


class EmbeddingServer:
    """Counts what it is sent.

    `failures` are statuses of the next answers, `answer` replaces every later one, and `on_batch` is called with the
    texts of each request before it is answered.
    """

    def __init__(self):
        self.batches, self.keys, self.requests = [], set(), 0
        self.failures, self.answer, self.on_batch = [], None, lambda texts: None
        counts = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                counts.requests += 1
                counts.keys.add(self.headers["Authorization"])
                if counts.failures:
                    self.send_response(counts.failures.pop(0))
                    self.end_headers()
                    return
                texts = body["input"]
                counts.on_batch(texts)
                counts.batches.append(len(texts))
                rows = [{"index": i, "embedding": vector_of(t).tolist()} for i, t in enumerate(texts)]
                tokens = sum(len(t.split()) for t in texts)
                data = counts.answer or {"data": rows[::-1], "usage": {"total_tokens": tokens}}
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(data).encode())

            def log_message(self, *_):
                return

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
