# A small image with the command line: `make image`. Data are mounted, never copied in:
#   docker run --rm --network none -v "$PWD:/work" sfumato inspect cohort.csv --plan plan.toml
FROM python:3.13-slim AS build
COPY dist/sfumato-*.whl /tmp/
RUN python -m venv /opt/sfumato \
 && wheel=$(ls /tmp/sfumato-*.whl) \
 && /opt/sfumato/bin/pip install --no-cache-dir "sfumato[formats] @ file://$wheel"

FROM python:3.13-slim
COPY --from=build /opt/sfumato /opt/sfumato
# Kernels are compiled once and kept; the ledger of releases belongs on a mounted folder.
ENV PATH="/opt/sfumato/bin:$PATH" NUMBA_CACHE_DIR=/tmp/numba SFUMATO_LEDGER=/work/.sfumato-ledger
RUN useradd --create-home custodian
USER custodian
WORKDIR /work
ENTRYPOINT ["sfumato"]
CMD ["--help"]
