"""Kaplan-Meier by group: in which month a row left, whether by an event, and in which group, three owners' columns.

A row is in one of 4 x 12 cells. Who is at risk follows from the counts afterwards.
"""


async def program(c, tables):
    cell = 4 * tables["clinic"]["month"] + 2 * tables["shop"]["event"] + tables["bank"]["flag"]
    for value in range(48):
        c.open(f"cell_{value}", (await c.equal(cell, value)).sum())
