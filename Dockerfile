# The image of every service: coordinator, party, device, and the one-shot commands of docker-compose.yml.
#
# BASE_IMAGE is any Debian-like image with Python 3.11 and its venv module. Without a package index, put wheels into
# wheelhouse/ first (deploy/without-registry/wheelhouse): when the folder has wheels, pip looks nowhere else. BUILD_IMAGE is the
# same with binutils; what has none gets them from its distribution.

ARG BASE_IMAGE=python:3.11-slim-bookworm
ARG BUILD_IMAGE=${BASE_IMAGE}

# The dependencies, in a virtual environment without pip; a second one holds pip, and a folder the compiler, which
# services do without (mpc/machine_code.py). What a service never runs goes at once: a later layer would not make the
# image smaller. deploy/image/slim-down says what that is.
FROM ${BUILD_IMAGE} AS dependencies
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN command -v ld >/dev/null && command -v strip >/dev/null || \
    { apt-get update --quiet && apt-get install --quiet --yes --no-install-recommends binutils; }
RUN python3 -m venv /opt/installer && python3 -m venv --without-pip /opt/moiety
COPY deploy/image/slim-down /usr/local/bin/slim-down
# The pattern may match nothing; the lock file keeps the command valid then.
COPY requirements/service.lock wheelhouse* /wheels/
RUN if ls /wheels/*.whl >/dev/null 2>&1; then \
        printf '[global]\nno-index = true\nfind-links = /wheels\n' >/etc/pip.conf; \
    fi \
    && /opt/installer/bin/pip --python /opt/moiety install --quiet --no-compile --require-hashes \
        --requirement /wheels/service.lock \
    && slim-down /opt/moiety /opt/compiler \
    && /opt/moiety/bin/python -m compileall -q -j 0 /opt/moiety/lib

# Our own code apart from them, under /staging, so that a change of it does not move the dependencies' layer. The last
# command fails here, rather than in a container, where a service would lack something or would not find the kernels.
FROM dependencies AS application
COPY . /src/
RUN /opt/installer/bin/pip --python /opt/moiety install --quiet --no-deps --no-warn-script-location --root /staging /src \
    && PYTHONPATH=/opt/compiler:/src /opt/moiety/bin/python /src/deploy/image/compile-kernels \
        /staging/opt/moiety/lib/kernels \
    && PYTHONPATH=/opt/compiler:/src /opt/moiety/bin/python /src/deploy/image/prepare-group \
        /staging/opt/moiety/lib/kernels \
    && cd /staging/opt/moiety/lib/python3*/site-packages \
    && LD_LIBRARY_PATH=/staging/opt/moiety/lib/kernels /opt/moiety/bin/python -c \
        "import sys, coordinator.server, party.server, demo.data_sets.kdd, analyses.distribution.estimates.kernels; import mpc.arithmetic.rating_kernels; from mpc.matching.sodium import ristretto255; ristretto255(); sys.exit(not {'numba', 'rbcl'}.isdisjoint(sys.modules))"

# Whatever is small comes first: engines that copy whole layers copy little then.
FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="moiety" org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/opt/moiety/bin:$PATH LD_LIBRARY_PATH=/opt/moiety/lib/kernels PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
RUN useradd --system --uid 10001 --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin moiety \
    && mkdir -p /var/lib/moiety/state /var/lib/moiety/tls /var/lib/moiety/tables \
    && chown -R moiety:moiety /var/lib/moiety
WORKDIR /var/lib/moiety
COPY --from=dependencies /opt/moiety /opt/moiety
COPY --from=application /staging/opt/moiety /opt/moiety
USER moiety
ENTRYPOINT ["moiety"]
CMD ["--help"]
