"""The hot path: Kafka batches from one cluster to the other, inside transactions.

Knows bytes and sockets, not what a topic means.
"""
