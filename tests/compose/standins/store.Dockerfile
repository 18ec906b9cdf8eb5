# Stands in for a MinIO image. Context: store.py and the program weed.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends curl
COPY weed /usr/local/bin/weed
COPY store.py /opt/store.py
VOLUME ["/data"]
EXPOSE 9000
ENTRYPOINT ["python3", "/opt/store.py"]
