# The image of every service: coordinator, party, device, and the one-shot commands of docker-compose.yml.
#
# BASE_IMAGE is any Debian-like image with Python 3.11 and its venv module. Without a package index, put wheels into
# wheelhouse/ first (deploy/testing/wheelhouse): when the folder has wheels, pip looks nowhere else.

ARG BASE_IMAGE=python:3.11-slim-bookworm

# The dependencies, in a virtual environment without pip; a second one holds pip. What a service never runs, the test
# suites of the dependencies, goes at once: a later layer would not make the image smaller.
FROM ${BASE_IMAGE} AS dependencies
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python3 -m venv /opt/installer && python3 -m venv --without-pip /opt/moiety
# The pattern may match nothing; the lock file keeps the command valid then.
COPY requirements/service.lock wheelhouse* /wheels/
RUN if ls /wheels/*.whl >/dev/null 2>&1; then \
        printf '[global]\nno-index = true\nfind-links = /wheels\n' >/etc/pip.conf; \
    fi \
    && /opt/installer/bin/pip --python /opt/moiety install --quiet --require-hashes --requirement /wheels/service.lock \
    && find /opt/moiety/lib -type d -name tests -prune -exec rm -rf {} +

# Our own code apart from them, under /staging, so that a change of it does not move the dependencies' layer.
FROM dependencies AS application
COPY . /src/
RUN /opt/installer/bin/pip --python /opt/moiety install --quiet --no-deps --root /staging /src

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="moiety" org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --system --uid 10001 --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin moiety \
    && mkdir -p /var/lib/moiety/state /var/lib/moiety/tls /var/lib/moiety/tables \
    && chown -R moiety:moiety /var/lib/moiety
ENV PATH=/opt/moiety/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
COPY --from=dependencies /opt/moiety /opt/moiety
COPY --from=application /staging/opt/moiety /opt/moiety
COPY deploy/image/entrypoint /usr/local/bin/moiety-entrypoint
# Compile the arithmetic kernels here rather than in every container (deploy/image/entrypoint brings them to /tmp).
RUN NUMBA_CACHE_DIR=/opt/moiety/numba-cache python -c "import coordinator.server, party.server" \
    && chmod -R a+rX /opt/moiety/numba-cache
ENV NUMBA_CACHE_DIR=/tmp/numba-cache
USER moiety
WORKDIR /var/lib/moiety
ENTRYPOINT ["moiety-entrypoint"]
CMD ["--help"]
