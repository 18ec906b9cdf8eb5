# Stands in for apache/kafka. Context: kafka.py, the folders jars and java.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
RUN useradd --uid 1000 --create-home appuser \
 && install -d -o 1000 -g 0 -m 0775 /var/lib/kafka/data
COPY java /opt/java
COPY jars /opt/kafka/libs
COPY kafka.py /opt/kafka/start.py
USER appuser
VOLUME ["/var/lib/kafka/data"]
EXPOSE 9092
CMD ["python3", "/opt/kafka/start.py"]
