"""A picture of scores: rows in each of 10 x 10 fields of two scores to which all three owners add a part, by a mark.

Each owner computes its part of a row's two scores from its own columns, for instance with the components that a `pca`
job has released, in sixteenths of a field, and declares them as columns. A row is in one field, so all counts together
have the noise of one. `python -m bench.pca_figures --only "figure 2, private"` does it all.
"""


async def program(c, tables):
    bank, clinic, shop = tables["bank"], tables["clinic"], tables["shop"]
    across = await c.floor_shift(bank["first"] + clinic["first"] + shop["first"], 4)
    up = await c.floor_shift(bank["second"] + clinic["second"] + shop["second"], 4)
    rows = [await c.equal(up, field) for field in range(10)]
    for column in range(10):
        here = await c.equal(across, column)
        marked, other = here * shop["mark"], here * (1 - shop["mark"])
        for row in range(10):
            c.open(f"marked_{column}_{row}", (marked * rows[row]).sum())
            c.open(f"other_{column}_{row}", (other * rows[row]).sum())
