"""Schemas of stored data: they have a row for every field, and what they write is read again."""

from __future__ import annotations

import json
from dataclasses import asdict

from stackgrad.harness.tools.campaign.plain_results import SCHEMA as UNITS
from stackgrad.harness.tools.campaign.plain_results import CampaignUnit, UnitFinding
from stackgrad.harness.tools.campaign.spec import SCHEMA as SPECS
from stackgrad.harness.tools.campaign.spec import CampaignSpec
from stackgrad.harness.tools.fuzz.corpus import StoredPlan
from stackgrad.harness.tools.fuzz.plan import FuzzPlan, plan_for
from stackgrad.harness.tools.fuzz.result import JudgedComparison
from stackgrad.harness.tools.fuzz.words import SCHEMA as CASES


def test_every_field_of_stored_data_has_its_row() -> None:
    for schema, classes in (
        (CASES, (StoredPlan, FuzzPlan, JudgedComparison)),
        (UNITS, (CampaignUnit, UnitFinding, FuzzPlan, JudgedComparison)),
        (SPECS, (CampaignSpec,)),
    ):
        for cls in classes:
            assert schema.shapes(cls)


def test_what_is_written_is_read_again() -> None:
    for seed in range(200):
        plan = plan_for(seed, ("cpu", "cpu-masked"), ("taichi",))
        assert CASES.read(json.loads(json.dumps({"plan": asdict(plan), "failed": None})), StoredPlan) == StoredPlan(
            plan, None
        )
