"""Ends all jobs of a test with the test."""

import harness
import pytest


@pytest.fixture(autouse=True)
def end_of_jobs():
    yield
    harness.kill_all()
