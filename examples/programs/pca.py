"""Your own PCA: all products of centred columns are opened, and their eigenvectors are taken afterwards."""


async def program(c, tables):
    columns = [tables["bank"]["amount"] - 50, tables["clinic"]["weight"] - 50, tables["shop"]["spent"] - 50]
    for i in range(3):
        for j in range(i, 3):
            c.open(f"product_{i}_{j}", (columns[i] * columns[j]).sum())
        c.open(f"sum_{i}", columns[i].sum())
