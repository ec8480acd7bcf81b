package record

// Sibling returns the first document of another lane of the same pipeline: what holds for the pipeline is the same,
// and nothing that belongs to a lane is taken over. That it knows no topic is what makes its first run a first run.
func (c Checkpoint) Sibling(lane int) Checkpoint {
	c = c.Clone()
	return Checkpoint{
		Schema:    c.Schema,
		Lane:      lane,
		Lanes:     c.Lanes,
		Layout:    c.Layout,
		Seq:       c.Seq,
		Identity:  c.Identity,
		UpdatedBy: c.UpdatedBy,
	}
}
