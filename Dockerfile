# The server as an image. The folder `etc` holds anabranch.yaml and what that names: rules.yaml, certificate.pem and
# key.pem, which user 10001 has to be able to read (chown 10001 etc/key.pem).
#     docker build --build-arg COMMIT="$(git rev-parse --short=12 HEAD)" -t anabranch .
#     docker run -v anabranch:/var/lib/anabranch -v "$PWD/etc:/etc/anabranch:ro" -p 9090:9090 anabranch

FROM swift:6.2-bookworm AS build
# Without versions, so that the image has what Debian has fixed since.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends binutils libsqlite3-dev libzstd-dev python3 zlib1g-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
# What `anabranch --version` says: the sources come without their history.
ARG COMMIT=unknown
RUN ANABRANCH_COMMIT="$COMMIT" scripts/release --folder /release \
    && install -D /release/bin/anabranch /image/usr/local/bin/anabranch \
    && install -D -m 0644 -t /image/usr/share/doc/anabranch /release/LICENSE /release/THIRD-PARTY-NOTICES \
    && install -d -m 0700 -o 10001 -g 10001 /image/var/lib/anabranch

FROM debian:bookworm-slim
ARG VERSION=unreleased
LABEL org.opencontainers.image.title="Anabranch" \
    org.opencontainers.image.description="A sync server for Realm clients" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}"
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates tzdata \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /image/ /

USER 10001:10001
ENV ANABRANCH_DATA=/var/lib/anabranch \
    ANABRANCH_LISTEN=0.0.0.0:9090
VOLUME /var/lib/anabranch
EXPOSE 9090
STOPSIGNAL SIGTERM
# The data directory tells the command where the admin interface is and what opens it.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 CMD ["anabranch", "admin", "health"]
ENTRYPOINT ["anabranch"]
CMD ["serve", "--config", "/etc/anabranch/anabranch.yaml"]
