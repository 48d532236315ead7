"""Airflow reads its home when it is first imported: it must never be the developer's own."""

import atexit
import os
import shutil
import tempfile

HOME = tempfile.mkdtemp(prefix="twinlog-airflow-")
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
os.environ["AIRFLOW_HOME"] = HOME
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
