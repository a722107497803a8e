# An image with the command line and the studio: `make image`. Data are mounted, never copied in:
#   docker run --rm --network none -v "$PWD:/work" sfumato inspect cohort.csv --plan plan.toml
# The studio prints an address with a token, to be opened on this machine and nowhere else:
#   docker run --rm -it -p 127.0.0.1:8765:8765 -v "$PWD:/work" sfumato \
#     studio --listen 0.0.0.0 --no-browser
FROM python:3.13-slim AS build
COPY dist/sfumato-*.whl /tmp/
RUN python -m venv /opt/sfumato \
 && wheel=$(ls /tmp/sfumato-*.whl) \
 && /opt/sfumato/bin/pip install --no-cache-dir "sfumato[formats,postgres,studio] @ file://$wheel"

FROM python:3.13-slim
COPY --from=build /opt/sfumato /opt/sfumato
# Kernels and fonts are prepared once and kept, whoever runs it; ledger and sessions belong on a mounted folder.
ENV PATH="/opt/sfumato/bin:$PATH" NUMBA_CACHE_DIR=/tmp/numba MPLCONFIGDIR=/tmp/matplotlib \
    SFUMATO_LEDGER=/work/.sfumato-ledger SFUMATO_STUDIO=/work/.sfumato-studio
RUN useradd --create-home custodian
USER custodian
WORKDIR /work
EXPOSE 8765
ENTRYPOINT ["sfumato"]
CMD ["--help"]
