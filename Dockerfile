# Palimpsest with all extras, for a user that is not root. docs/deploy.md says how it is run.
#   docker build -t palimpsest .
# torch comes with CUDA from the registry; a folder or an index with a CPU build makes the image 3 GB smaller:
#   docker build --build-arg PIP_EXTRA_INDEX_URL=... -t palimpsest .
FROM python:3.11-slim AS build
RUN apt-get update \
 && apt-get install --yes --no-install-recommends build-essential \
 && rm -rf /var/lib/apt/lists/*
RUN python -m venv /opt/palimpsest
ENV PATH=/opt/palimpsest/bin:$PATH
WORKDIR /src
COPY . .
ARG EXTRAS=all
ARG PIP_EXTRA_INDEX_URL=
ARG PIP_FIND_LINKS=
RUN pip install --no-cache-dir --disable-pip-version-check -c constraints.txt ".[${EXTRAS}]"

FROM python:3.11-slim
RUN useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin palimpsest \
 && install -d -o palimpsest -g palimpsest -m 0700 /var/lib/palimpsest
COPY --from=build /opt/palimpsest /opt/palimpsest
# Everything that is written is in the volume: the rest of the file system may be read-only.
ENV PATH=/opt/palimpsest/bin:$PATH \
    HOME=/var/lib/palimpsest/user \
    PALIMPSEST_HOME=/var/lib/palimpsest/home \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /var/lib/palimpsest
VOLUME ["/var/lib/palimpsest"]
EXPOSE 8765
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=4 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8765/health', timeout=4)"]
ENTRYPOINT ["palimpsest"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8765"]
