# Two images. `sandbox` has only the interpreter and the guest; the Docker backend starts it. `service` runs the API and
# the workers as an ordinary user. Any builder can build them, including the classic one:
#
#   docker build --target service -t gradebox .
#   docker build --target sandbox -t my-sandbox .  # not gradebox-sandbox: old images of that name are removed
#
# The build checks the hash of each package. To use the same base each time, give its digest too
# (--build-arg BASE=python:3.12-slim-bookworm@sha256:…).
#
# Without a network: first put the wheels into wheels/ (`scripts/images wheels`), and choose a base with the packages
# (`scripts/images base`) by --build-arg BASE=…
ARG BASE=python:3.12-slim-bookworm

FROM ${BASE} AS build
RUN python3 -c 'import ensurepip, venv' 2>/dev/null \
    || (apt-get update && apt-get install -y --no-install-recommends python3-venv && rm -rf /var/lib/apt/lists/*)
COPY . /source
# uv is unpacked from its wheel: pip, which could install it, would have to be installed and removed again.
RUN python3 /source/scripts/stale-wheels /source/wheels \
    && (ls /source/wheels/gradebox-*.whl >/dev/null 2>&1 \
        || (python3 -m venv /tools && PYTHON=/tools/bin/python /source/scripts/wheels /source/wheels)) \
    && python3 -m venv --without-pip /opt/gradebox \
    && python3 -m zipfile -e "$(ls -v /source/wheels/uv-*.whl | tail -n 1)" /uv \
    && chmod +x /uv/uv-*.data/scripts/uv \
    && /uv/uv-*.data/scripts/uv pip install --no-cache --python /opt/gradebox/bin/python --no-index \
        --find-links /source/wheels 'gradebox[server,s3]' \
    && { /opt/gradebox/bin/python -m compileall -q -x /tests/ /opt/gradebox/lib || true; } \
    && GRADEBOX_IMAGE_DIR=/image /opt/gradebox/bin/python -c 'from gradebox.service.server_programs import become; become("sandbox.image", [], {})'

FROM scratch AS sandbox
COPY --from=build /image/python-* /
COPY --from=build /image/guest-* /usr/lib/gradebox/
LABEL gradebox=1
USER 65534:65534

FROM ${BASE} AS service
RUN (command -v bwrap && ls /usr/lib/*/libseccomp.so.2) >/dev/null 2>&1 \
    || (apt-get update && apt-get install -y --no-install-recommends bubblewrap libseccomp2 && rm -rf /var/lib/apt/lists/*)
RUN echo 'gradebox:x:10001:10001::/home/gradebox:/bin/false' >>/etc/passwd \
    && echo 'gradebox:x:10001:' >>/etc/group \
    && mkdir -p /home/gradebox /data /keys /spool /environments \
    && chown 10001:10001 /home/gradebox /data /keys /spool /environments \
    && chmod 700 /data /keys /spool && chmod 755 /environments
COPY --from=build /opt/gradebox /opt/gradebox
ENV PATH=/opt/gradebox/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 \
    GRADEBOX_DATA_DIR=/data GRADEBOX_HOST=0.0.0.0 GRADEBOX_IMAGE_DIR=/home/gradebox/image
USER 10001:10001
WORKDIR /data
# Makes the image of sandboxes now, so that the root of the containers can be read-only.
RUN python -c 'from gradebox.service.server_programs import become; become("sandbox.image", [], {})'
VOLUME /data
EXPOSE 8000
ENTRYPOINT ["gradebox"]
CMD ["api"]
