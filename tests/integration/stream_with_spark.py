"""A Structured Streaming query over one Kafka partition, run by tests in a process of its own.

Arguments: bootstrap servers, topic, checkpoint folder, file to append the read values to.

Its source is a Python data source, whose offsets have the shape of Spark's Kafka source (`{"topic": {"0": 42}}`,
org.apache.spark.sql.kafka010.JsonUtils); the files of the checkpoint are written and read by Spark itself.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession  # noqa: TID253
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition  # noqa: TID253


class Records(DataSourceStreamReader):
    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self._topic = bootstrap, topic

    def initialOffset(self) -> dict[str, Any]:
        return {self._topic: {"0": 0}}

    def latestOffset(self) -> dict[str, Any]:
        from confluent_kafka import TopicPartition

        consumer = self._consumer()
        _, end = consumer.get_watermark_offsets(TopicPartition(self._topic, 0), timeout=30)
        consumer.close()
        return {self._topic: {"0": end}}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [InputPartition((start[self._topic]["0"], end[self._topic]["0"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        from confluent_kafka import TopicPartition

        start, end = partition.value
        consumer = self._consumer()
        consumer.assign([TopicPartition(self._topic, 0, start)])
        at = start
        while at < end:
            for message in consumer.consume(1000, 1):
                if message.error() is None and message.offset() < end:
                    yield (message.value().decode(),)
            (place,) = consumer.position([TopicPartition(self._topic, 0)])
            at = place.offset
        consumer.close()

    def commit(self, end: dict[str, Any]) -> None:
        pass

    def _consumer(self) -> Any:
        from confluent_kafka import Consumer  # here: Spark ships this class to a worker, and not the C module

        return Consumer({
            "bootstrap.servers": self._bootstrap,
            "group.id": "spark",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        })


class Kafka(DataSource):
    @classmethod
    def name(cls) -> str:
        return "one-partition"

    def schema(self) -> str:
        return "value string"

    def streamReader(self, schema: Any) -> Records:
        return Records(self.options["bootstrap"], self.options["topic"])


def main(bootstrap: str, topic: str, checkpoint: str, out: str) -> None:
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    spark.dataSource.register(Kafka)

    def append(frame: Any, _: int) -> None:
        with pathlib.Path(out).open("a") as file:
            file.writelines(f"{row.value}\n" for row in frame.collect())

    stream = (
        spark.readStream.format("one-partition").option("bootstrap", bootstrap).option("topic", topic).load()
    )
    query = stream.writeStream.foreachBatch(append).option("checkpointLocation", checkpoint).start()
    query.processAllAvailable()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
